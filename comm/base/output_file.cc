#include <fcntl.h>
#include <tutti/comm/base/output_file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

namespace tutti::comm {
namespace {

bool is_replaced(const std::string& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  return kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
}

// The random part: in a folder that other users can write to (/tmp) they cannot take the name before.
std::string draft_name(const std::string& path) {
  const std::filesystem::path file(path);
  const auto name = "." + file.filename().string() + ".tmp-" + std::to_string(::getpid()) + "-" +
                    std::to_string(std::random_device()());
  return (file.parent_path() / name).string();
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") return;
  if (std::filesystem::is_directory(path_)) fail(EISDIR);
  if (!is_replaced(path_)) return;  // opened by the first write: opening a pipe waits for its reader
  std::string draft = draft_name(path_);
  fd_ = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(errno);
  draft_ = std::move(draft);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!draft_.empty()) ::unlink(draft_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (fd_ < 0) {
    if (path_ == "-" && std::fflush(stdout) != 0) fail(errno);
    fd_ = path_ == "-" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail(errno);
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void OutputFile::finish() {
  if (fd_ >= 0 && ::fsync(fd_) != 0 && errno != EINVAL) fail(errno);  // EINVAL: a pipe or a terminal
  if (draft_.empty()) return;
  if (std::rename(draft_.c_str(), path_.c_str()) != 0) fail(errno);
  draft_.clear();
}

void OutputFile::fail(int error) const {
  const std::string what = path_ == "-" ? "standard output" : path_;
  throw std::system_error(error, std::generic_category(), "cannot write " + what);
}

void write_output(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.finish();
}

int create_private_file(const std::string& path, std::string_view bytes, bool replace) {
  std::string draft = path + ".XXXXXX";
  const int fd = ::mkostemp(draft.data(), O_CLOEXEC);  // mode 0600
  if (fd < 0) return errno;
  const auto give_name = [&] {
    if (replace) return ::rename(draft.c_str(), path.c_str()) == 0;
    return ::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST;
  };
  const bool made =
      ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) && ::fsync(fd) == 0 && give_name();
  const int error = made ? 0 : errno;
  ::close(fd);
  ::unlink(draft.c_str());
  return error;
}

}  // namespace tutti::comm
