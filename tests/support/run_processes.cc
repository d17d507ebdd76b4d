#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tools/run/rank_environment.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tutti::test {
namespace {

using comm::Deadline;

struct Stream {
  int fd = -1;
  std::string text{};
};

struct Process {
  pid_t pid = -1;
  Stream out{}, err{};
  std::optional<ExitStatus> end{};
};

class SpawnSettings {
 public:
  SpawnSettings(int out, int err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> plain_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> result = extra;  // the first of two equal names counts for getenv
  for (char** entry = environ; *entry != nullptr; ++entry) result.emplace_back(*entry);
  return result;
}

Process spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) comm::throw_errno("pipe2", errno);
  const SpawnSettings settings(out[1], err[1]);
  Process process;
  const int error = posix_spawnp(&process.pid, command.front().c_str(), &settings.actions_, &settings.attributes_,
                                 pointers(command).data(), pointers(environment).data());
  ::close(out[1]);
  ::close(err[1]);
  process.out.fd = out[0];
  process.err.fd = err[0];
  if (error == 0) return process;
  ::close(out[0]);
  ::close(err[0]);
  comm::throw_errno("cannot start " + command.front(), error);
}

}  // namespace

class Processes::Impl {
 public:
  explicit Impl(const ProcessesOptions& options) {
    if (options.ranks) start_store(options.count);
    try {
      for (int rank = 0; rank < options.count; ++rank) {
        const auto environment = options.ranks ? tools::rank_environment(job_, rank, options.environment)
                                               : plain_environment(options.environment);
        processes_.push_back(spawn(options.command, environment));
      }
      if (::pipe2(stop_, O_CLOEXEC) != 0) comm::throw_errno("pipe2", errno);
    } catch (...) {
      end_all();
      throw;
    }
    reader_ = std::thread([this] { read_all(); });
  }

  ~Impl() {
    ::close(stop_[1]);
    reader_.join();
    ::close(stop_[0]);
    end_all();
  }

  Process& at(int rank) { return processes_.at(static_cast<std::size_t>(rank)); }
  std::uint16_t store_port() const { return server_ ? server_->port() : std::uint16_t{0}; }
  void stop_store() { server_.reset(); }

  std::string text(const Stream& stream) {
    const std::lock_guard lock(mutex_);
    return stream.text;
  }

  bool wait_for(const Stream& stream, std::string_view wanted, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    const auto found = [&] { return stream.text.find(wanted) != std::string::npos; };
    changed_.wait_for(lock, limit, [&] { return found() || stream.fd < 0; });
    return found();
  }

  std::optional<ExitStatus> wait(Process& process, std::chrono::milliseconds limit) {
    const Deadline deadline = Deadline::after(limit);
    if (!process.end) {
      if (!wait_until_gone(process.pid, limit)) return std::nullopt;
      siginfo_t info{};
      // The zombie stays until the end: its number must not be used again while signals may be sent to its group.
      if (::waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOWAIT) != 0) return std::nullopt;
      process.end = ExitStatus{info.si_code != CLD_EXITED, info.si_status};
    }
    std::unique_lock lock(mutex_);
    const auto printed = [&] { return process.out.fd < 0 && process.err.fd < 0; };
    if (!changed_.wait_until(lock, deadline.time_point(), printed)) return std::nullopt;
    return process.end;
  }

 private:
  void start_store(int world_size) {
    job_.plan.world_size = job_.plan.nodes.front().nproc = world_size;
    job_.plan.master_addr = "127.0.0.1";
    job_.plan.job_id = tools::new_job_id();
    job_.secret = comm::new_job_secret();
    comm::TcpStoreServerOptions options;
    options.job_id = job_.plan.job_id;
    options.job_secret = job_.secret;
    options.world_size = world_size;
    server_ = std::make_unique<comm::TcpStoreServer>(options);
    job_.plan.master_port = job_.plan.store_port = server_->port();
  }

  void end_all() {
    for (Process& process : processes_) {
      ::kill(-process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
      for (const Stream* stream : {&process.out, &process.err}) {
        if (stream->fd >= 0) ::close(stream->fd);
      }
    }
  }

  // The capturing thread; ends when the write end of stop_ is closed.
  void read_all() {
    for (;;) {
      std::vector<pollfd> entries{{stop_[0], POLLIN, 0}};
      std::vector<Stream*> streams{nullptr};
      for (Process& process : processes_) {
        for (Stream* stream : {&process.out, &process.err}) {
          if (stream->fd < 0) continue;
          entries.push_back({stream->fd, POLLIN, 0});
          streams.push_back(stream);
        }
      }
      if (::poll(entries.data(), entries.size(), -1) < 0) continue;
      if (entries.front().revents != 0) return;
      for (std::size_t i = 1; i < entries.size(); ++i) {
        if (entries[i].revents != 0) read_some(*streams[i]);
      }
    }
  }

  void read_some(Stream& stream) {
    char bytes[64 * 1024];
    const ssize_t count = ::read(stream.fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) return;
    {
      const std::lock_guard lock(mutex_);
      if (count > 0) {
        stream.text.append(bytes, static_cast<std::size_t>(count));
      } else {
        ::close(stream.fd);
        stream.fd = -1;
      }
    }
    changed_.notify_all();
  }

  tools::JobEnvironment job_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  std::vector<Process> processes_;
  int stop_[2] = {-1, -1};
  std::mutex mutex_;  // guards the texts and descriptors of all streams, which the capturing thread changes
  std::condition_variable changed_;
  std::thread reader_;
};

Processes::Processes(const ProcessesOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Processes::~Processes() = default;

pid_t Processes::pid(int rank) const { return impl_->at(rank).pid; }
std::uint16_t Processes::store_port() const { return impl_->store_port(); }
void Processes::stop_store() { impl_->stop_store(); }
void Processes::kill(int rank, int signal) { ::kill(impl_->at(rank).pid, signal); }

std::optional<ExitStatus> Processes::wait(int rank, std::chrono::milliseconds limit) {
  return impl_->wait(impl_->at(rank), limit);
}

std::string Processes::out(int rank) const { return impl_->text(impl_->at(rank).out); }
std::string Processes::err(int rank) const { return impl_->text(impl_->at(rank).err); }

bool Processes::wait_for_output(int rank, std::string_view text, std::chrono::milliseconds limit) {
  return impl_->wait_for(impl_->at(rank).out, text, limit);
}

bool Processes::wait_for_error(int rank, std::string_view text, std::chrono::milliseconds limit) {
  return impl_->wait_for(impl_->at(rank).err, text, limit);
}

Finished run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                     std::chrono::milliseconds limit) {
  Processes processes({.command = command, .count = 1, .ranks = false, .environment = environment});
  const std::optional<ExitStatus> status = processes.wait(0, limit);
  if (status) return {*status, processes.out(0), processes.err(0)};
  throw comm::Error(comm::ErrorCode::Timeout, command.front() + " still runs after " + std::to_string(limit.count()) +
                                                  " ms; it printed:\n" + processes.out(0) + processes.err(0));
}

bool wait_until_gone(pid_t pid, std::chrono::milliseconds limit) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));  // glibc has a wrapper only since 2.36
  if (fd < 0) return errno == ESRCH;
  pollfd entry{fd, POLLIN, 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(limit.count()));
  ::close(fd);
  return ready == 1;
}

}  // namespace tutti::test
