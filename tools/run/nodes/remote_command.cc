#include <fcntl.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/nodes/remote_command.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tutti::tools {
namespace {

constexpr std::size_t kKeptLines = 10;

}  // namespace

void RemoteCommand::start(SpawnPlan plan, std::string settings, const SignalGuard& signals, const Keeper& keeper) {
  if (pid_ > 0) end(keeper);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) comm::throw_errno("cannot make a pipe to a remote command", errno);
  name_ = plan.command.front();
  const comm::Socket settings_end(ends[0]);
  input_ = comm::Socket(ends[1]);
  plan.stdin_fd = settings_end.get();
  const SpawnedRank spawned = spawn_rank(plan, signals, keeper);
  ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  pid_ = spawned.pid;
  out_ = Stream{comm::Socket(spawned.out)};
  err_ = Stream{comm::Socket(spawned.err)};
  ended_ = begun_ = false;
  settings_ = std::move(settings);
  written_ = 0;
  before_.clear();
}

void RemoteCommand::add_poll_entries(std::vector<pollfd>& entries) const {
  if (input_.get() >= 0 && written_ < settings_.size()) entries.push_back({input_.get(), POLLOUT, 0});
  if (out_.fd.get() >= 0 && !console_.out().congested()) entries.push_back({out_.fd.get(), POLLIN, 0});
  if (err_.fd.get() >= 0 && !console_.err().congested()) entries.push_back({err_.fd.get(), POLLIN, 0});
}

bool RemoteCommand::handle(const pollfd& entry) {
  if (entry.fd < 0 || (entry.fd != input_.get() && entry.fd != out_.fd.get() && entry.fd != err_.fd.get()))
    return false;
  if (entry.revents == 0) return true;
  if (entry.fd == input_.get()) {
    write_settings();
  } else {
    take(entry.fd == out_.fd.get() ? out_ : err_, entry.fd == err_.fd.get());
  }
  return true;
}

void RemoteCommand::write_settings() {
  const ssize_t count = ::write(input_.get(), settings_.data() + written_, settings_.size() - written_);
  if (count > 0) written_ += static_cast<std::size_t>(count);
  if (count < 0 && errno != EAGAIN && errno != EINTR) close_input();  // it has ended; its status will tell why
}

bool RemoteCommand::take(Stream& stream, bool is_error) {
  char bytes[64 * 1024];
  const ssize_t count = ::read(stream.fd.get(), bytes, sizeof(bytes));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const auto line = [&](std::string_view text, bool /*live*/) { show(stream, is_error, text); };
  if (count > 0) {
    stream.splitter.feed({bytes, static_cast<std::size_t>(count)}, line);
    return true;
  }
  stream.splitter.finish(line);
  stream.fd.close();
  return false;
}

void RemoteCommand::show(Stream& stream, bool is_error, std::string_view line) {
  if (!stream.marked && line == kAgentMark) {
    stream.marked = begun_ = true;
    return;
  }
  if (stream.marked) return (is_error ? console_.err() : console_.out()).push(std::string(line) + "\n");
  before_.emplace_back(line);
  if (before_.size() > kKeptLines) before_.pop_front();
  console_.err().push("[" + host_ + "] " + std::string(line) + "\n");
}

bool RemoteCommand::note_end() {
  if (!running()) return false;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
    return false;
  drain();
  ended_ = true;
  wait_code_ = info.si_code;
  wait_status_ = info.si_status;
  close_input();
  return true;
}

std::string RemoteCommand::state() const {
  std::string text = "'" + name_ + "' to " + host_;
  if (!ended_) {
    text += begun_ ? " runs" : " has not started tutti so far";
  } else if (wait_code_ == CLD_EXITED) {
    text += " ended with status " + std::to_string(wait_status_);
    if (wait_status_ == 127 && !begun_) text += " (is tutti at the same path there?)";
  } else {
    text += " was killed by " + signal_name(wait_status_);
  }
  if (begun_) return text;
  if (before_.empty()) return text + "; it printed nothing";
  text += "; it printed:";
  for (const std::string& line : before_) text += "\n    | " + line;
  return text;
}

void RemoteCommand::end(const Keeper& keeper) {
  if (pid_ <= 0) return;
  close_input();
  ::kill(-pid_, SIGKILL);
  keeper.forget(pid_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  drain();
  out_.fd.close();
  err_.fd.close();
  pid_ = -1;
}

// What is there now. Somebody may hold the other end for longer (ssh's ControlPersist does).
void RemoteCommand::drain() {
  for (const bool is_error : {false, true}) {
    Stream& stream = is_error ? err_ : out_;
    for (bool more = true; more && stream.fd.get() >= 0;) more = take(stream, is_error);
  }
}

}  // namespace tutti::tools
