#include <fcntl.h>
#include <tutti/trainer/report/append_file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

[[noreturn]] void fail_to_write(const std::filesystem::path& file, int error_number) {
  throw std::runtime_error("cannot write " + file.string() + ": " + std::strerror(error_number));
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& file, std::uint64_t keep_bytes)
    : path_(file), buffer_(std::make_unique<char[]>(kBuffer)) {
  descriptor_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_to_write(path_, errno);
  if (::ftruncate(descriptor_, static_cast<off_t>(keep_bytes)) == 0) return;
  const int error_number = errno;
  ::close(descriptor_);
  fail_to_write(path_, error_number);
}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (const std::exception&) {  // the owner flushes where it wants to know
  }
  ::close(descriptor_);
}

char* AppendFile::room(std::size_t nbytes) {
  if (kBuffer - filled_ < nbytes) flush();
  return buffer_.get() + filled_;
}

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kBuffer);
    std::memcpy(room(part), bytes.data(), part);
    used(part);
    bytes.remove_prefix(part);
  }
}

void AppendFile::flush() {
  const char* next = buffer_.get();
  std::size_t left = std::exchange(filled_, 0);
  while (left > 0) {
    const ssize_t written = ::write(descriptor_, next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path_, errno);
    next += written;
    left -= static_cast<std::size_t>(written);
  }
}

}  // namespace tutti::trainer
