#include <sys/eventfd.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/wakeups.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace tutti::comm {
namespace {

void make_readable(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
}

}  // namespace

Wakeups::~Wakeups() {
  for (const int fd : spare_) ::close(fd);
}

void Wakeups::ring() {
  const std::lock_guard lock(mutex_);
  missed_ = true;
  for (const int fd : asleep_) make_readable(fd);
  asleep_.clear();
}

Wakeups::Sleeper::Sleeper(Wakeups& wakeups) : wakeups_(wakeups) {
  const std::lock_guard lock(wakeups_.mutex_);
  if (wakeups_.spare_.empty()) {
    fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd_ < 0) throw_errno("cannot create an eventfd", errno);
  } else {
    fd_ = wakeups_.spare_.back();
    wakeups_.spare_.pop_back();
  }
  if (std::exchange(wakeups_.missed_, false)) {
    make_readable(fd_);
  } else {
    wakeups_.asleep_.push_back(fd_);
  }
}

Wakeups::Sleeper::~Sleeper() {
  const std::lock_guard lock(wakeups_.mutex_);
  if (std::erase(wakeups_.asleep_, fd_) == 0) {  // it was rung
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto drained = ::read(fd_, &rings, sizeof rings);
  }
  wakeups_.spare_.push_back(fd_);
}

}  // namespace tutti::comm
