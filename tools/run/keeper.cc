#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/keeper.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace tutti::tools {
namespace {

// Runs in the forked child of a process that may have threads: async-signal-safe calls only, no allocation.
[[noreturn]] void keep(int read_fd, pid_t* groups, std::size_t capacity) noexcept {
  setpgid(0, 0);  // Ctrl-C is for the launcher
  prctl(PR_SET_NAME, "tutti-keeper");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  if (read_fd > 0) close_range(0, static_cast<unsigned>(read_fd) - 1, 0);
  close_range(static_cast<unsigned>(read_fd) + 1, ~0U, 0);

  std::size_t count = 0;
  pid_t message = 0;
  // Messages are far below PIPE_BUF, so they arrive whole. Positive: register; negative: forget.
  while (read(read_fd, &message, sizeof(message)) == static_cast<ssize_t>(sizeof(message))) {
    if (message > 0) {
      if (count < capacity) groups[count++] = message;
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (groups[i] == -message) groups[i--] = groups[--count];
    }
  }
  for (std::size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

Keeper::Keeper(int capacity) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) comm::throw_errno("cannot make a pipe", errno);
  std::vector<pid_t> groups(static_cast<std::size_t>(capacity));
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    keep(ends[0], groups.data(), groups.size());
  }
  const int error = errno;
  close(ends[0]);
  write_fd_ = ends[1];
  if (pid_ < 0) {
    close(write_fd_);
    comm::throw_errno("cannot start the keeper process (fork)", error);
  }
}

Keeper::~Keeper() {
  close(write_fd_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::register_self() const noexcept {
  const pid_t self = getpid();
  // If the keeper is gone there is nobody to tell, and the kernel's parent-death signal still guards this process.
  [[maybe_unused]] const ssize_t written = write(write_fd_, &self, sizeof(self));
}

void Keeper::forget(pid_t pid) const noexcept {
  const pid_t message = -pid;
  [[maybe_unused]] const ssize_t written = write(write_fd_, &message, sizeof(message));
}

}  // namespace tutti::tools
