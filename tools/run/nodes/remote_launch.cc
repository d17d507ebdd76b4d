// -H and --hostfile: one launcher starts an agent on each host by a remote command (ssh, or any like it), coordinates
// them, and shows what all ranks print.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/launch_context.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/rank_output.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>

namespace tutti::tools {
namespace {

using Clock = RankEnd::Clock;

constexpr std::chrono::milliseconds kFarewellTime{3000};  // for the remote commands to end after the verdict

// What the ranks on the other hosts should find as they would here.
std::vector<std::string> passed_on_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool wanted = name.starts_with("TUTTI_") || name.starts_with("PET_") || name == "OMP_NUM_THREADS" ||
                        name == "PATH" || name == "LD_LIBRARY_PATH" || name == "PYTHONPATH" || name == "VIRTUAL_ENV";
    if (wanted && name != "TUTTI_JOB_SECRET") result.push_back(text);
  }
  return result;
}

// Addresses of this host that others may reach it by; its loopback address last, for a remote command that stays here.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  for (const comm::InterfaceAddress& own : comm::interface_addresses()) {
    const bool usable = own.up && own.kind != comm::InterfaceAddress::Kind::Loopback;
    if (usable && !own.address.starts_with("fe80:")) addresses.push_back(own.address);
  }
  addresses.push_back(comm::loopback_address());
  return addresses;
}

/// What the remote shell prints before the agent has begun goes to standard error, with the host; then lines are the
/// ranks', and go on as they are.
class RemoteLines final : public LinePrinter {
 public:
  RemoteLines(std::string host, const LaunchOptions& options, const JobEnvironment& job, Console& console)
      : LinePrinter(options, job, console), host_(std::move(host)) {}

  void print(int local_rank, Stream stream, std::string_view line) override {
    bool& begun = begun_[static_cast<int>(stream)];
    if (begun) return LinePrinter::print(local_rank, stream, line);
    begun = line == kAgentMark;
    if (!begun) LinePrinter::print(local_rank, Stream::Err, "[" + host_ + "] " + std::string(line));
  }

  bool begun() const { return begun_[0] || begun_[1]; }

 private:
  const std::string host_;
  bool begun_[2] = {false, false};  // by stream
};

/// One `ssh HOST tutti run --agent`, as a child process whose standard input gets the settings and then stays open, and
/// whose output is shown line by line. The lines before the agent has begun (a banner) are quoted in error texts.
class RemoteCommand {
 public:
  RemoteCommand(std::string host, Console& console) : host_(std::move(host)), console_(console) {}

  /// Not while it runs. Throws what spawn_rank throws.
  void start(SpawnPlan plan, std::string settings, const SignalGuard& signals, const Keeper& keeper) {
    if (end_.pid > 0) end(keeper);
    Pipe input = make_pipe("a remote command's input");
    name_ = plan.command.front();
    plan.stdin_fd = input.read_end.get();
    const SpawnedRank spawned = spawn_rank(plan, signals, keeper);
    input_ = std::move(input.write_end);
    ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
    end_ = {};
    end_.pid = spawned.pid;
    LaunchOptions as_they_are;
    as_they_are.label = false;
    JobEnvironment of_several;  // whose output is cut into lines
    of_several.plan.world_size = 2;
    lines_.emplace(host_, as_they_are, of_several, console_);
    output_.emplace(as_they_are, of_several, 0, spawned.out, spawned.err, *lines_);
    settings_ = std::move(settings);
    written_ = 0;
  }

  void add_poll_entries(std::vector<pollfd>& entries) const {
    if (input_.get() >= 0 && written_ < settings_.size()) entries.push_back({input_.get(), POLLOUT, 0});
    if (output_) output_->add_poll_entries(entries);
  }

  /// True if it was ours.
  bool handle(const pollfd& entry) {
    if (entry.fd != input_.get()) return output_ && output_->handle(entry);
    if (entry.revents != 0) write_settings();
    return true;
  }

  bool running() const { return end_.pid > 0 && end_.running; }
  bool begun() const { return lines_ && lines_->begun(); }

  /// True once after it has ended.
  bool note_end() {
    if (!running() || !tools::note_end(end_)) return false;
    output_->finish();  // with what is there now: others may hold the other end for longer (ssh's ControlPersist does)
    input_.close();
    return true;
  }

  /// "'ssh' to node1 ended with status 255; it printed: ..."
  std::string state() const {
    std::string text = "'" + name_ + "' to " + host_;
    if (end_.running) {
      text += begun() ? " runs" : " has not started tutti so far";
    } else if (!end_.by_signal) {
      text += " ended with status " + std::to_string(end_.code);
      if (end_.code == 127 && !begun()) text += " (is tutti at the same path there?)";
    } else {
      text += " was killed by " + signal_name(end_.code);
    }
    if (begun()) return text;
    if (output_->tail().empty()) return text + "; it printed nothing";
    text += "; it printed:";
    for (const std::string& line : output_->tail()) text += "\n    | " + line;
    return text;
  }

  /// Kills what is left of it, and reaps.
  void end(const Keeper& keeper) {
    if (end_.pid <= 0) return;
    input_.close();
    ::kill(-end_.pid, SIGKILL);
    keeper.forget(end_.pid);
    while (::waitpid(end_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    output_->finish();
    end_.pid = -1;
  }

 private:
  void write_settings() {
    const ssize_t count = ::write(input_.get(), settings_.data() + written_, settings_.size() - written_);
    if (count > 0) written_ += static_cast<std::size_t>(count);
    if (count < 0 && errno != EAGAIN && errno != EINTR) input_.close();  // it has ended; its status will tell why
  }

  const std::string host_;
  Console& console_;
  std::string name_;
  RankEnd end_;
  comm::Socket input_;
  std::string settings_;
  std::size_t written_ = 0;
  std::optional<RemoteLines> lines_;
  std::optional<RankOutput> output_;
};

class RemoteLaunch {
 public:
  explicit RemoteLaunch(LaunchContext& context)
      : context_(context), options_(context.options), remote_(*context.options.remote) {}

  int run() {
    start_coordinator();
    comm::raise_descriptor_limit(3 * remote_.hosts.size() + 16,
                                 "the remote commands of " + std::to_string(remote_.hosts.size()) + " hosts");
    for (std::size_t node = 0; node < remote_.hosts.size(); ++node) {
      commands_.push_back(std::make_unique<RemoteCommand>(remote_.hosts[node].host, context_.console));
      start(node);
    }
    while (!final_ || (!all_ended() && Clock::now() < *deadline_)) step();
    for (const auto& command : commands_) command->end(context_.keeper);
    link_.reset();
    coordinator_.reset();
    return final_->status;
  }

 private:
  void start_coordinator() {
    Hello own{.is_coordinators = true, .host = comm::host_name(), .pid = ::getpid(), .nproc = 0};
    own.settings = agreed_settings(options_);
    coordinator_ = std::make_unique<Coordinator>(CoordinatorOptions{
        .nodes = *options_.nodes,
        .bind_address = remote_.bind_address,
        .job_secret = secret_,
        .own = own,
        .about = "agents meet at this launcher (started by " + remote_.rsh.front() + "), secret from this launcher",
        .launch = options_});
    NodeOptions here = *options_.nodes;
    here.host = remote_.bind_address.empty() ? comm::loopback_address() : remote_.bind_address;
    here.port = coordinator_->port();
    link_ = std::make_unique<ControlLink>(here, secret_, own);
  }

  // The command line is one word: ssh, like any shell, puts words together again.
  void start(std::size_t node) {
    const std::string& host = remote_.hosts[node].host;
    SpawnPlan plan{remote_.rsh, {}, context_.keep_open};
    plan.command.push_back(host);
    plan.command.push_back(comm::shell_quoted(this_program()) + " run --agent");
    commands_[node]->start(plan, encode_settings(settings_for(node)), context_.signals, context_.keeper);
  }

  RemoteSettings settings_for(std::size_t node) const {
    RemoteSettings settings;
    settings.secret = secret_;
    settings.folder = std::filesystem::current_path().string();
    settings.environment = passed_on_environment();
    settings.command = own_command();
    settings.host = remote_.hosts[node].host;  // "user@node1" is node1 to people
    settings.host.erase(0, settings.host.find('@') + 1);
    settings.node = static_cast<int>(node);
    settings.nodes = static_cast<int>(remote_.hosts.size());
    settings.nproc = remote_.hosts[node].slots.value_or(options_.nproc);
    settings.port = coordinator_->port();
    settings.addresses =
        remote_.bind_address.empty() ? own_addresses() : std::vector<std::string>{remote_.bind_address};
    return settings;
  }

  void step() {
    std::vector<pollfd> entries{{context_.signals.fd(), POLLIN, 0}, {link_->fd(), POLLIN, 0}};
    context_.console.add_poll_entries(entries);
    for (const auto& command : commands_) command->add_poll_entries(entries);
    constexpr int kAFewTimesASecond = 200;
    if (::poll(entries.data(), entries.size(), final_ ? kAFewTimesASecond : -1) < 0) return;
    for (std::size_t i = 2; i < entries.size(); ++i) {
      const bool theirs =
          std::any_of(commands_.begin(), commands_.end(), [&](const auto& c) { return c->handle(entries[i]); });
      if (!theirs) context_.console.handle(entries[i]);
    }
    take_signals();
    while (const std::optional<LinkEvent> event = link_->next()) take(*event);
    for (std::size_t node = 0; node < commands_.size(); ++node) look_after(node);
  }

  void take_signals() {
    while (const std::optional<int> signal = context_.signals.next()) {
      if (*signal == SIGCHLD) {
        if (const std::string text = context_.keeper.replace_if_dead(); !text.empty()) context_.say(text + "\n");
      }
      if (*signal == SIGCHLD || *signal == SIGTSTP) continue;
      link_->post(Signalled{*signal, interrupted_});
      interrupted_ = interrupted_ || asks_to_end(*signal);
    }
  }

  void take(const LinkEvent& event) {
    if (event.kind == LinkEvent::Kind::Lost && !final_) return finish({0, true, 1, event.text + "\n"});
    if (event.kind != LinkEvent::Kind::Told) return;
    if (const auto* notice = std::get_if<Notice>(&event.message)) context_.say(notice->text);
    const auto* const verdict = std::get_if<Verdict>(&event.message);
    if (verdict == nullptr) return;
    if (verdict->final) return finish(*verdict);
    context_.say(verdict->summary);
    again_ = true;
    for (std::size_t node = 0; node < commands_.size(); ++node) {
      if (!commands_[node]->running()) start_again(node);  // its agent was lost; the next round needs another
    }
  }

  void finish(const Verdict& verdict) {
    final_ = verdict;
    deadline_ = Clock::now() + kFarewellTime;
    if (!verdict.summary.empty()) context_.say(verdict.summary);
    for (const auto& command : commands_) {
      if (!command->running() || command->begun()) continue;  // the agent ends by itself now
      if (verdict.status != 0) context_.console.err().push("  " + command->state() + "\n");
      command->end(context_.keeper);
    }
  }

  // A command that ends before its agent has begun will not bring one; what an agent does the coordinator knows.
  void look_after(std::size_t node) {
    RemoteCommand& command = *commands_[node];
    if (!command.note_end() || final_) return;
    link_->post(
        GiveUp{"cannot run the agent of node " + std::to_string(node) + ": " + command.state(), command.begun()});
    if (again_ && options_.elastic && command.begun()) start_again(node);  // its loss was known before its end
  }

  void start_again(std::size_t node) {
    again_ = false;
    start(node);
  }

  bool all_ended() const {
    return std::none_of(commands_.begin(), commands_.end(), [](const auto& c) { return c->running(); });
  }

  LaunchContext& context_;
  const LaunchOptions& options_;
  const RemoteOptions& remote_;
  const std::string secret_ = comm::new_job_secret();
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ControlLink> link_;
  std::vector<std::unique_ptr<RemoteCommand>> commands_;
  bool interrupted_ = false;
  bool again_ = false;  // a lost agent is to be started again
  std::optional<Verdict> final_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

int run_remotely(LaunchContext& context) { return RemoteLaunch(context).run(); }

}  // namespace tutti::tools
