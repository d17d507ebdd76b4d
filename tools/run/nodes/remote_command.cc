#include <fcntl.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/nodes/remote_command.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tutti::tools {

void RemoteLines::print(int local_rank, Stream stream, std::string_view line) {
  bool& begun = begun_[static_cast<int>(stream)];
  if (begun) return LinePrinter::print(local_rank, stream, line);
  begun = line == kAgentMark;
  if (!begun) LinePrinter::print(local_rank, Stream::Err, "[" + host_ + "] " + std::string(line));
}

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
  LaunchOptions as_they_are;
  as_they_are.label = false;
  JobEnvironment of_several;  // whose output is cut into lines
  of_several.world_size = 2;
  lines_.emplace(host_, as_they_are, of_several, console_);
  output_.emplace(as_they_are, of_several, 0, spawned.out, spawned.err, *lines_);
  ended_ = false;
  settings_ = std::move(settings);
  written_ = 0;
}

void RemoteCommand::add_poll_entries(std::vector<pollfd>& entries) const {
  if (input_.get() >= 0 && written_ < settings_.size()) entries.push_back({input_.get(), POLLOUT, 0});
  if (output_) output_->add_poll_entries(entries);
}

bool RemoteCommand::handle(const pollfd& entry) {
  if (entry.fd != input_.get()) return output_ && output_->handle(entry);
  if (entry.revents != 0) write_settings();
  return true;
}

void RemoteCommand::write_settings() {
  const ssize_t count = ::write(input_.get(), settings_.data() + written_, settings_.size() - written_);
  if (count > 0) written_ += static_cast<std::size_t>(count);
  if (count < 0 && errno != EAGAIN && errno != EINTR) close_input();  // it has ended; its status will tell why
}

bool RemoteCommand::note_end() {
  if (!running()) return false;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
    return false;
  output_->finish();  // with what is there now: others may hold the other end for longer (ssh's ControlPersist does)
  ended_ = true;
  wait_code_ = info.si_code;
  wait_status_ = info.si_status;
  close_input();
  return true;
}

std::string RemoteCommand::state() const {
  std::string text = "'" + name_ + "' to " + host_;
  if (!ended_) {
    text += begun() ? " runs" : " has not started tutti so far";
  } else if (wait_code_ == CLD_EXITED) {
    text += " ended with status " + std::to_string(wait_status_);
    if (wait_status_ == 127 && !begun()) text += " (is tutti at the same path there?)";
  } else {
    text += " was killed by " + signal_name(wait_status_);
  }
  if (begun()) return text;
  if (output_->tail().empty()) return text + "; it printed nothing";
  text += "; it printed:";
  for (const std::string& line : output_->tail()) text += "\n    | " + line;
  return text;
}

void RemoteCommand::end(const Keeper& keeper) {
  if (pid_ <= 0) return;
  close_input();
  ::kill(-pid_, SIGKILL);
  keeper.forget(pid_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  output_->finish();
  pid_ = -1;
}

}  // namespace tutti::tools
