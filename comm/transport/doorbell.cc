#include <fcntl.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/doorbell.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace tutti::comm {
namespace {

std::uint64_t inode_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

/// For reading and writing: a pipe that no process reads any more would raise SIGPIPE. -1 if it is not there.
int open_pipe(pid_t pid, int descriptor) {
  std::array<char, 48> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", pid, descriptor);
  return ::open(path.data(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

/// A full pipe is no failure: the bell has been rung often enough.
void write_byte(int descriptor) { [[maybe_unused]] const auto written = ::write(descriptor, "", 1); }

}  // namespace

Doorbell::Doorbell() {
  constexpr char kFailed[] = "cannot make a pipe to be woken by";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno(kFailed, errno);
  descriptor_ = open_pipe(::getpid(), ends[0]);
  const int error = errno;
  for (const int end : ends) ::close(end);
  if (descriptor_ < 0) throw_errno(kFailed, error);
}

Doorbell::~Doorbell() { ::close(descriptor_); }

DoorbellAddress Doorbell::address() const { return {::getpid(), descriptor_, inode_of(descriptor_)}; }

void Doorbell::ring() noexcept { write_byte(descriptor_); }

bool Doorbell::ring(const DoorbellAddress& other) noexcept {
  const int descriptor = open_pipe(other.pid, other.descriptor);
  if (descriptor < 0) return false;
  const bool is_there = inode_of(descriptor) == other.inode;
  if (is_there) write_byte(descriptor);
  ::close(descriptor);
  return is_there;
}

void Doorbell::silence() noexcept {
  std::array<char, 64> bytes;
  while (::read(descriptor_, bytes.data(), bytes.size()) > 0) {
  }
}

}  // namespace tutti::comm
