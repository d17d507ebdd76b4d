#include <fcntl.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/doorbell.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace tutti::comm {
namespace {

std::uint64_t inode_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

/// A full pipe is no failure: the bell has been rung often enough.
void write_byte(int descriptor) { [[maybe_unused]] const auto written = ::write(descriptor, "", 1); }

}  // namespace

Doorbell::Doorbell() {
  if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("cannot make a pipe to be woken by", errno);
}

Doorbell::~Doorbell() {
  for (const int end : ends_) ::close(end);
}

DoorbellAddress Doorbell::address() const { return {::getpid(), ends_[0], inode_of(ends_[0])}; }

void Doorbell::ring() noexcept { write_byte(ends_[1]); }

bool Doorbell::ring(const DoorbellAddress& other) noexcept {
  std::array<char, 48> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", other.pid, other.descriptor);
  // For reading and writing: a pipe that no process reads any more would raise SIGPIPE.
  const int descriptor = ::open(path.data(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool is_there = inode_of(descriptor) == other.inode;
  if (is_there) write_byte(descriptor);
  ::close(descriptor);
  return is_there;
}

void Doorbell::silence() noexcept {
  std::array<char, 64> bytes;
  while (::read(ends_[0], bytes.data(), bytes.size()) > 0) {
  }
}

}  // namespace tutti::comm
