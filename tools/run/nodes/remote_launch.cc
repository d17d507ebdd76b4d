#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/nodes/remote_command.h>
#include <tutti/tools/run/nodes/remote_launch.h>
#include <tutti/tools/run/own_command.h>
#include <unistd.h>
#include <wordexp.h>

#include <algorithm>
#include <filesystem>
#include <memory>

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

class RemoteLaunch {
 public:
  RemoteLaunch(LaunchContext& context, const RemoteOptions& remote)
      : context_(context), options_(context.options), remote_(remote), secret_(comm::new_job_secret()) {}

  int run() {
    program_ = find_program(remote_.rsh.front());
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
    SpawnPlan plan{program_, remote_.rsh, rsh_environment(), context_.keep_open};
    plan.command.push_back(host);
    plan.command.push_back(comm::shell_quoted(this_program()) + " run --agent");
    commands_[node]->start(plan, encode_settings(settings_for(node)), context_.signals, context_.keeper);
  }

  static std::vector<std::string> rsh_environment() {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) result.emplace_back(*entry);
    return result;
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
  const std::string secret_;
  std::string program_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ControlLink> link_;
  std::vector<std::unique_ptr<RemoteCommand>> commands_;
  bool interrupted_ = false;
  bool again_ = false;  // a lost agent is to be started again
  std::optional<Verdict> final_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

std::vector<std::string> split_rsh(const std::string& text) {
  std::vector<std::string> words;
  wordexp_t parts{};
  if (const int error = ::wordexp(text.c_str(), &parts, WRDE_NOCMD); error != 0)
    throw std::invalid_argument("--rsh '" + text + "' " +
                                (error == WRDE_SYNTAX ? "has a quote that does not end"
                                                      : "is no simple command line; quote what a shell would act on"));
  for (std::size_t i = 0; i < parts.we_wordc; ++i) words.emplace_back(parts.we_wordv[i]);
  ::wordfree(&parts);
  if (words.empty()) throw std::invalid_argument("--rsh names no command; write --rsh 'ssh -p 2222'");
  return words;
}

int launch_remotely(const LaunchOptions& options, const RemoteOptions& remote) {
  ensure_standard_descriptors();
  LaunchContext context(options, static_cast<int>(2 * remote.hosts.size()) + options.max_restarts);
  int status = 1;
  try {
    status = RemoteLaunch(context, remote).run();
  } catch (const CannotExecute& error) {
    context.say(std::string(error.what()) + " (--rsh)\n");
    status = error.status();
  } catch (const std::exception& error) {
    context.say(std::string(error.what()) + "\n");
  }
  context.flush();
  return status;
}

}  // namespace tutti::tools
