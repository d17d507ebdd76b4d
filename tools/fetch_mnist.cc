#include <sys/wait.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/tools/fetch_mnist.h>
#include <tutti/tools/labs/sandbox/limited_command.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/data/mnist.h>
#include <tutti/trainer/tensor_comm.h>

#include <cstdio>
#include <iostream>
#include <random>
#include <stdexcept>
#include <system_error>

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;
using trainer::MnistFinding;

constexpr std::size_t kLargestFile = std::size_t{32} << 20;  // the largest of the four has 10 MB
constexpr int kCurlCannotContinue = 33;                      // the server knows no byte ranges
constexpr int kCannotExecute = 127;

struct Curl {
  int status = 0;     // its exit status; -1: ended by a signal
  std::string error;  // in its words; empty if there was none
};

/// Appends to `file`, from its end on, what the server has there; a live line meanwhile.
Curl run_curl(const std::string& url, const fs::path& file, std::chrono::seconds patience) {
  const std::string seconds = std::to_string(patience.count());
  std::vector<std::string> words = comm::split(
      "curl --silent --fail --location --proto =http,https --continue-at - --speed-limit 1 --write-out %{errormsg}",
      ' ');
  words.insert(words.end(), {"--speed-time", seconds, "--connect-timeout", seconds, "--output",
                             file.filename().string(), "--", url});
  comm::LiveLine line(stderr);
  const auto show = [&] {
    std::error_code missing;
    const auto bytes = fs::file_size(file, missing);
    line.show(comm::format("%.1f MB  ", missing ? 0.0 : static_cast<double>(bytes) / 1e6) + url);
  };
  const labs::CommandResult done = labs::run_limited(
      words, file.parent_path(),
      {.wall = std::chrono::hours(24), .file_bytes = kLargestFile, .keeps_environment = true, .while_waiting = show});
  Curl result{.status = WIFEXITED(done.status) ? WEXITSTATUS(done.status) : -1, .error = done.output};
  if (result.status == kCannotExecute) throw std::runtime_error("needs the program curl: apt-get install curl");
  if (result.status != 0 && result.error.empty())
    result.error =
        result.status > 0 ? "curl ended with status " + std::to_string(result.status) : "it sends more than MNIST has";
  return result;
}

/// Completes `part` from one server. Empty, or what was wrong.
std::string fetch_from(const std::string& url, const fs::path& part, const std::string& md5,
                       const FetchOptions& options) {
  for (;;) {
    const bool continues = fs::exists(part);
    const Curl curl = run_curl(url, part, options.patience);
    const std::string found = fs::exists(part) ? trainer::digest_of_file(part, trainer::Digest::Kind::Md5) : "";
    if (found == md5) return {};
    // What a connection broke off can be continued; what is whole and wrong, or too long, cannot.
    if (curl.status > 0 && curl.status != kCurlCannotContinue) return curl.error;
    fs::remove(part);
    if (!continues)
      return curl.status == 0 ? "what it sends is not the published file (md5 " + found + ")" : curl.error;
  }
}

void fetch_file(const MnistFinding& file, const FetchOptions& options) {
  const fs::path part = options.folder / (file.file + ".part");
  std::string failures;
  for (const std::string& mirror : options.mirrors) {
    const std::string url = mirror + (mirror.ends_with('/') ? "" : "/") + file.file;
    const std::string failure = fetch_from(url, part, file.expected_md5, options);
    if (failure.empty()) {
      fs::rename(part, options.folder / file.file);
      std::cout << "fetched " << url << std::endl;
      return;
    }
    failures += "\n  " + url + ": " + failure;
  }
  throw std::runtime_error("no server has " + file.file + ", name another with --mirror, or copy the file into " +
                           options.folder.string() + ":" + failures);
}

void fetch_missing(const FetchOptions& options) {
  for (const MnistFinding& file : trainer::verify_mnist(options.folder)) {
    if (!file.present) {
      fetch_file(file, options);
    } else if (!file.readable() || !file.published()) {
      throw std::runtime_error(
          (options.folder / file.file).string() +
          " is there and is not the published file: move it away, or name another folder with --to");
    }
  }
}

/// Collective. True on one of the ranks that have `folder` on the same file system: which is the first to make a folder
/// in it of a name that all agree on.
bool is_first_of_file_system(comm::ProcessGroup& group, const fs::path& folder) {
  const fs::path mark = folder / trainer::broadcast_text(group, ".fetch-" + std::to_string(std::random_device{}()), 0);
  const bool is_first = fs::create_directory(mark);
  group.barrier();
  if (is_first) fs::remove(mark);
  return is_first;
}

}  // namespace

void fetch_mnist(const FetchOptions& options) {
  fs::create_directories(options.folder);
  if (!world_size_from_launcher()) return fetch_missing(options);
  // However long a download takes; a rank that is lost is noticed by itself.
  run_as_rank(comm::World::detect(), {.timeout = std::chrono::hours(24)}, [&](comm::ProcessGroup& group) {
    if (is_first_of_file_system(group, options.folder)) fetch_missing(options);
    group.barrier();
    return 0;
  });
}

}  // namespace tutti::tools
