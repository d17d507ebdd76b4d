#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/leftovers.h>
#include <tutti/tools/run/signals.h>
#include <tutti/tools/run/spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace tutti::tools {
namespace {

constexpr char kName[] = "tutti-keeper";

static_assert(std::atomic<pid_t>::is_always_lock_free, "processes share them");

// Runs in the forked child of a process that may have threads: async-signal-safe calls only, no allocation.
[[noreturn]] void keep(int read_fd, std::span<const std::atomic<pid_t>> groups, std::span<char> command_line) noexcept {
  setpgid(0, 0);  // Ctrl-C is for the launcher
  prctl(PR_SET_NAME, kName);
  if (!command_line.empty()) {
    std::memset(command_line.data(), 0, command_line.size());
    std::memcpy(command_line.data(), kName, std::min(sizeof(kName), command_line.size()) - 1);
  }
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  if (read_fd > 0) close_range(0, static_cast<unsigned>(read_fd) - 1, 0);
  close_range(static_cast<unsigned>(read_fd) + 1, ~0U, 0);

  char byte;
  while (read(read_fd, &byte, 1) < 0 && errno == EINTR) {
  }
  for (const std::atomic<pid_t>& group : groups) {
    if (const pid_t leader = group.load(); leader > 0) kill(-leader, SIGKILL);
  }
  _exit(0);
}

std::span<std::atomic<pid_t>> shared_table(std::size_t size) {
  void* memory = ::mmap(nullptr, size * sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0);  // zeros
  if (memory == MAP_FAILED) comm::throw_errno("cannot share memory with the keeper process", errno);
  return {static_cast<std::atomic<pid_t>*>(memory), size};
}

// What /proc tells of a process behind its name, which may hold anything: the fields of proc(5) from the third on.
std::istringstream state_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  return std::istringstream(line.substr(line.rfind(')') + 1));
}

// Where the kernel reads this process's command line: the fields arg_start and arg_end. Empty if it hides them.
std::span<char> own_command_line() {
  std::istringstream fields = state_of("self");
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return {};
  return {reinterpret_cast<char*>(begin), end - begin};
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStrayKillTime{5};
constexpr char kThreads[] = "/proc/self/task";

// Of all threads: an orphan becomes a child of any of them.
std::set<pid_t> children() {
  std::set<pid_t> result;
  std::error_code ended;
  for (std::filesystem::directory_iterator thread(kThreads, ended), none; !ended && thread != none;
       thread.increment(ended)) {
    std::ifstream file(thread->path() / "children");
    for (pid_t pid = 0; file >> pid;) result.insert(pid);
  }
  return result;
}

}  // namespace

Keeper::Keeper(int capacity)
    : groups_(shared_table(static_cast<std::size_t>(std::max(capacity, 1)))), command_line_(own_command_line()) {
  start();
}

void Keeper::start() {
  Pipe pipe = make_pipe("the keeper process");
  pid_ = fork();
  if (pid_ == 0) {
    pipe.write_end.close();
    keep(pipe.read_end.get(), groups_, command_line_);
  }
  if (pid_ < 0) comm::throw_errno("cannot start the keeper process (fork)", errno);
  write_end_ = std::move(pipe.write_end);
}

std::string Keeper::replace_if_dead() {
  int status = 0;
  const pid_t dead = pid_;
  if (dead <= 0 || waitpid(dead, &status, WNOHANG) != dead) return {};
  pid_ = -1;
  write_end_.close();
  const std::string killed = "the keeper process (pid " + std::to_string(dead) + ") was killed" +
                             (WIFSIGNALED(status) ? " by " + signal_name(WTERMSIG(status)) : std::string());
  try {
    start();
  } catch (const comm::Error& error) {
    return killed + ", and there is no other: " + error.what() +
           "; if this launcher is killed, too, what its ranks have started may be left";
  }
  return killed + "; another takes its place (pid " + std::to_string(pid_) + ")";
}

Keeper::~Keeper() {
  write_end_.close();
  while (pid_ > 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::munmap(groups_.data(), groups_.size_bytes());
}

void Keeper::register_self() const noexcept {
  const pid_t self = getpid();
  for (std::atomic<pid_t>& group : groups_) {
    pid_t free = 0;
    if (group.compare_exchange_strong(free, self)) return;
  }
}

void Keeper::forget(pid_t pid) const noexcept {
  for (std::atomic<pid_t>& group : groups_) {
    pid_t found = pid;
    if (group.compare_exchange_strong(found, 0)) return;
  }
}

Strays::Strays() : before_(children()) {
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  if (std::filesystem::exists("/proc/thread-self/children")) prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Strays::~Strays() { prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }

std::set<pid_t> Strays::found(const std::set<pid_t>& own) const {
  std::set<pid_t> result = children();
  std::erase_if(result, [&](pid_t pid) { return before_.contains(pid) || own.contains(pid); });
  return result;
}

void Strays::reap(const std::set<pid_t>& own) const {
  for (const pid_t pid : found(own)) ::waitpid(pid, nullptr, WNOHANG);
}

void Strays::end(const std::set<pid_t>& own) const {
  const Clock::time_point give_up = Clock::now() + kStrayKillTime;
  for (std::set<pid_t> left = found(own); !left.empty() && Clock::now() < give_up; left = found(own)) {
    bool killed = false;
    for (const pid_t pid : left) {
      killed = ::kill(pid, SIGKILL) == 0 || killed;  // not if it has become another user's
      ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!killed) return;
    ::poll(nullptr, 0, 1);
  }
}

// The first field: 'T' stopped by a signal, 't' by a debugger.
bool is_stopped(pid_t pid) {
  char state = ' ';
  state_of(std::to_string(pid)) >> state;
  return state == 'T' || state == 't';
}

}  // namespace tutti::tools
