#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/tools/fetch_mnist.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/data/mnist.h>
#include <tutti/trainer/tensor_comm.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <random>
#include <stdexcept>
#include <system_error>

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;
using trainer::MnistFinding;

constexpr rlim_t kLargestFile = rlim_t{32} << 20;  // the largest of the four has 10 MB
constexpr int kCurlCannotContinue = 33;            // the server knows no byte ranges
constexpr int kCannotExecute = 127;

struct Curl {
  int status = 0;     // its exit status; -1: ended by a signal
  std::string error;  // in its words; empty if there was none
};

/// In the child: nothing but calls that are safe after fork().
[[noreturn]] void become_curl(char* const* words, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const rlimit limit{kLargestFile, kLargestFile};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::dup2(output, STDOUT_FILENO);
  ::execvp(words[0], words);
  ::_exit(kCannotExecute);
}

/// What curl prints, up to its end; a live line meanwhile.
std::string output_of(int pipe, const std::string& url, const fs::path& file) {
  const std::size_t columns = comm::terminal_columns(STDERR_FILENO);
  std::string text;
  char piece[512];
  for (;;) {
    pollfd waiting{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 200) > 0) {
      const ssize_t count = ::read(pipe, piece, sizeof piece);
      if (count > 0) text.append(piece, static_cast<std::size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) break;
    }
    if (columns == 0) continue;
    std::error_code missing;
    const auto bytes = fs::file_size(file, missing);
    const std::string line = comm::format("%.1f MB  ", missing ? 0.0 : static_cast<double>(bytes) / 1e6) + url;
    std::fprintf(stderr, "\r\033[K%s", std::string(comm::fitted(line, columns)).c_str());
  }
  if (columns > 0) std::fputs("\r\033[K", stderr);
  return text;
}

/// Appends to `file`, from its end on, what the server has there.
Curl run_curl(const std::string& url, const fs::path& file, std::chrono::seconds patience) {
  const std::string seconds = std::to_string(patience.count());
  std::vector<std::string> words = {"curl",
                                    "--silent",
                                    "--fail",
                                    "--location",
                                    "--proto",
                                    "=http,https",
                                    "--continue-at",
                                    "-",
                                    "--speed-limit",
                                    "1",
                                    "--speed-time",
                                    seconds,
                                    "--connect-timeout",
                                    seconds,
                                    "--write-out",
                                    "%{errormsg}",
                                    "--output",
                                    file.string(),
                                    "--",
                                    url};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const pid_t child = ::fork();
  if (child == 0) become_curl(pointers.data(), pipe[1]);
  ::close(pipe[1]);
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  Curl result{.status = -1, .error = output_of(pipe[0], url, file)};
  ::close(pipe[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
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

/// Collective. Is this the lowest of the ranks that have `folder` on the same file system? Each rank leaves a file
/// there, and looks for those of lower ranks.
bool is_first_of_file_system(comm::ProcessGroup& group, const fs::path& folder) {
  const std::string common =
      trainer::broadcast_text(group, ".fetch-" + std::to_string(std::random_device{}()) + "-", 0);
  const fs::path mine = folder / (common + std::to_string(group.rank()));
  if (!std::ofstream(mine))
    throw std::system_error(errno, std::generic_category(), "cannot write into " + folder.string());
  group.barrier();
  bool is_first = true;
  for (int rank = 0; rank < group.rank(); ++rank)
    is_first = is_first && !fs::exists(folder / (common + std::to_string(rank)));
  group.barrier();
  fs::remove(mine);
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
