#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/job_secret.h>
#include <tutti/comm/bootstrap/local_address.h>
#include <tutti/tools/run/attempt.h>
#include <tutti/tools/run/nodes/agent.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>
#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/reserved_port.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace tutti::tools {
namespace {

using Clock = RankEnd::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kLastWords{2000};   // for the coordinator to take the last message
constexpr milliseconds kSameSignal{1000};  // one signal to a whole job reaches its agents within this time
constexpr char kAgreementVersion[] = "1";  // of the messages between agents

class Agent final : public AttemptControl {
 public:
  explicit Agent(LaunchContext& context)
      : context_(context),
        options_(context.options),
        nodes_(*context.options.nodes),
        host_(nodes_.node_name.empty() ? agent_host_name() : nodes_.node_name) {}

  int run() {
    if (!options_.log_dir.empty()) std::filesystem::create_directories(options_.log_dir);
    if (!options_.store) reserved_.emplace("0.0.0.0");
    secret_ = comm::job_secret();
    start_coordinator();
    if (!nodes_.meeting_file.empty()) meet_as_scheduled();
    if (status_) return *status_;
    link_ = std::make_unique<ControlLink>(nodes_, secret_, hello(), control_hosts());
    if (nodes_.remote) input_.emplace([this] { link_->lose("the launcher's connection has ended"); });
    while (!status_) {
      if (plan_) {
        run_round(*std::exchange(plan_, std::nullopt));
      } else {
        wait();
      }
    }
    input_.reset();
    link_.reset();  // says goodbye before the coordinator waits for that
    published_.reset();
    coordinator_.reset();
    return *status_;
  }

  // ---- for the Attempt ----

  int fd() const override { return link_->fd(); }

  std::optional<AttemptOrder> next_order() override {
    while (std::optional<LinkEvent> event = link_->next()) {
      if (event->kind == LinkEvent::Kind::Lost) {
        lost_ = event->text;
        return AttemptOrder{AttemptOrder::Kind::Kill, 0};
      }
      if (const auto order = take(*event)) return order;
    }
    return std::nullopt;
  }

  void rank_failed(const RankEnd&) override {
    if (!failure_told_) link_->post(to_words(Failed{round_}));
    failure_told_ = true;
  }

  void signal_came(int signal, bool again) override {
    last_signals_[signal] = Clock::now();
    if (asks_to_end(signal)) {
      link_->post(to_words(Interrupted{signal, again}));
    } else if (coordinator_) {
      link_->post(to_words(Forwarded{signal}));
    }
  }

 private:
  Hello hello() const {
    Hello hello;
    hello.node_rank = nodes_.node_rank;
    hello.is_coordinators = coordinator_ != nullptr;
    hello.host = host_;
    hello.pid = ::getpid();
    hello.nproc = options_.nproc;
    hello.cores = available_cpus();
    hello.reserved_port = reserved_ ? reserved_->port() : std::uint16_t{0};
    hello.settings = agreed_settings(options_);
    return hello;
  }

  void start_coordinator() {
    if (nodes_.remote || (nodes_.is_static() && *nodes_.node_rank != 0)) return;
    if (!nodes_.meeting_file.empty()) nodes_.host = address_to_coordinate_at();
    CoordinatorOptions options;
    options.nodes = nodes_;
    options.bind_address = coordinator_bind_address(nodes_.host);
    options.job_secret = secret_;
    options.job_id = nodes_.run_id.empty() ? new_job_id() : nodes_.run_id;
    options.own = hello();
    options.about = "agents meet at " + meeting_place() + " (" + how_they_meet() + "), secret from " +
                    (std::getenv("TUTTI_JOB_SECRET") != nullptr ? "TUTTI_JOB_SECRET" : "the home folder");
    options.max_restarts = options_.max_restarts;
    options.store = options_.store;
    options.torch_store = options_.torch_store;
    try {
      coordinator_ = std::make_unique<Coordinator>(options);
      everywhere_ = options.bind_address.empty();
    } catch (const comm::Error& error) {
      if (nodes_.is_static())
        throw comm::Error(error.code(),
                          std::string(error.what()) + " (the agent with --node-rank 0 serves --master-addr)");
      not_coordinator_ = error.what();  // another agent is; or whoever holds the port will turn out to be a stranger
    }
  }

  // The agent of node 0 shows where it coordinates, the others look there.
  void meet_as_scheduled() {
    if (coordinator_) {
      nodes_.port = coordinator_->port();
      published_.emplace(nodes_.meeting_file, secret_, nodes_.max_nodes, CoordinatorAddress{nodes_.host, nodes_.port});
      return;
    }
    const auto stopped = [this] {
      while (const std::optional<int> signal = context_.signals.next()) {
        if (!asks_to_end(*signal)) continue;
        context_.say("stopped by " + signal_name(*signal) + "\n");
        status_ = 128 + *signal;
      }
      return status_.has_value();
    };
    const auto found =
        find_coordinator(nodes_.meeting_file, secret_, nodes_.join_timeout, stopped, [this](const std::string& line) {
          context_.say(line + "\n");
          context_.flush();
        });
    if (!found) return;
    nodes_.host = found->host;
    nodes_.port = found->port;
  }

  // A name of this very host may stand for an address that only this host has.
  std::vector<std::string> control_hosts() const {
    if (nodes_.remote) return nodes_.addresses;
    std::vector<std::string> hosts;
    const std::string outward = everywhere_ ? comm::default_route_address() : "";
    if (!outward.empty()) hosts.push_back(outward);
    hosts.push_back(nodes_.host);
    return hosts;
  }

  std::string how_they_meet() const {
    if (!nodes_.meeting_file.empty()) return "a scheduler's " + nodes_.meeting_file;
    return nodes_.is_static() ? "--master-addr" : "--rdzv-endpoint";
  }

  std::string meeting_place() const { return nodes_.host + ":" + std::to_string(nodes_.port); }

  // Waits for a signal or an event while no ranks run.
  void wait() {
    std::vector<pollfd> entries{{context_.signals.fd(), POLLIN, 0}, {link_->fd(), POLLIN, 0}};
    context_.console.add_poll_entries(entries);
    if (::poll(entries.data(), entries.size(), -1) < 0) return;
    for (std::size_t i = 2; i < entries.size(); ++i) context_.console.handle(entries[i]);
    while (const std::optional<int> signal = context_.signals.next()) {
      if (asks_to_end(*signal)) leave(*signal);
    }
    while (!status_ && !plan_) {  // orders that follow a plan are for its Attempt
      const std::optional<LinkEvent> event = link_->next();
      if (!event) return;
      if (event->kind == LinkEvent::Kind::Lost) {
        lost_ = event->text;
        give_up_on_coordinator("");
      } else {
        take(*event);
      }
    }
  }

  // A signal that asks to end, while no ranks run here. The coordinator stays, to end the others' ranks in order.
  void leave(int signal) {
    const bool first = last_signals_.empty() || coordinator_ == nullptr;
    last_signals_[signal] = Clock::now();
    link_->post(to_words(Interrupted{signal, !first}));
    if (coordinator_ && first) return;
    context_.say("stopped by " + signal_name(signal) + "\n");
    link_->flush(connected_ ? kLastWords : milliseconds(0));
    status_ = 128 + signal;
  }

  std::optional<AttemptOrder> take(const LinkEvent& event) {
    if (event.kind == LinkEvent::Kind::Connected) connected_ = true;
    if (event.kind == LinkEvent::Kind::Waiting)
      context_.say("waiting for the coordinator at " + meeting_place() + ": " + event.text +
                   (not_coordinator_.empty() ? "" : "; this node cannot be it: " + not_coordinator_) + "\n");
    if (event.kind != LinkEvent::Kind::Message) return std::nullopt;
    const std::string& kind = kind_of(event.words);
    if (kind == "order") return to_attempt_order(to_order(event.words));
    if (kind == "plan") {
      RoundPlan plan = to_round_plan(event.words);
      if (plan.node_of(link_->agent())) plan_ = std::move(plan);
    } else if (kind == "verdict") {
      take_verdict(to_verdict(event.words));
    } else if (kind == "notice") {
      context_.say(to_notice(event.words).text);
    } else if (kind == "refusal") {
      context_.say(to_refusal(event.words).text + "\n");
      status_ = 1;
    }
    return std::nullopt;
  }

  std::optional<AttemptOrder> to_attempt_order(const Order& order) {
    if (order.round != round_) return std::nullopt;
    switch (order.kind) {
      case Order::Kind::Settle:
        return AttemptOrder{AttemptOrder::Kind::Settle, 0};
      case Order::Kind::Terminate:
        return AttemptOrder{AttemptOrder::Kind::Terminate, 0};
      case Order::Kind::Kill:
        return AttemptOrder{AttemptOrder::Kind::Kill, 0};
      case Order::Kind::Signal:
        break;
    }
    // Schedulers send one signal to all agents; the forwarded one is the same.
    const auto known = last_signals_.find(order.signal);
    if (known != last_signals_.end() && Clock::now() < known->second + kSameSignal) return std::nullopt;
    return AttemptOrder{AttemptOrder::Kind::Signal, order.signal};
  }

  // The coordinator's agent shows all that is known; the others name the cause.
  void take_verdict(const Verdict& verdict) {
    if (!verdict.summary.empty()) {
      const std::string cause = verdict.summary.substr(0, verdict.summary.find('\n') + 1);
      if (!nodes_.remote) context_.say(coordinator_ ? verdict.summary : cause);  // the launcher shows it
    }
    if (verdict.final) status_ = verdict.status;
  }

  void give_up_on_coordinator(const std::string& what_of_ranks) {
    context_.say(std::string(connected_ ? "lost the coordinator at " : "there is no coordinator at ") +
                 meeting_place() + ": " + *lost_ + what_of_ranks +
                 (not_coordinator_.empty() ? "" : "\n  This node cannot be the coordinator: " + not_coordinator_) +
                 "\n");
    status_ = 1;
  }

  JobEnvironment environment_of(const RoundPlan& plan, int node) const {
    JobEnvironment job;
    job.world_size = plan.world_size;
    job.node = node;
    job.node_count = static_cast<int>(plan.nodes.size());
    job.first_rank = plan.nodes[static_cast<std::size_t>(node)].first_rank;
    job.local_size = options_.nproc;
    job.host = host_;
    job.master_addr = plan.master_addr.empty() ? link_->server_address() : plan.master_addr;
    job.master_port = plan.master_port;
    job.launcher_owns_store = options_.store && !options_.torch_store;
    job.torch_store = options_.torch_store;
    job.job_id = plan.job_id;
    job.job_secret = secret_;
    job.restart_count = plan.restart_count;
    job.max_restarts = options_.max_restarts;
    return job;
  }

  void run_round(const RoundPlan& plan) {
    round_ = plan.round;
    failure_told_ = false;
    const JobEnvironment job = environment_of(plan, *plan.node_of(link_->agent()));
    Attempt attempt(options_, job, context_.signals, context_.keeper, context_.console, context_.keep_open, this);
    Ended ended;
    ended.round = plan.round;
    try {
      attempt.start(find_program(options_.command.front()));
      Started started{plan.round, {}, {}};
      for (const RankEnd& rank : attempt.ends()) started.pids.push_back(rank.pid);
      for (const std::vector<int>& cpus : options_.local.cpus) started.cores.push_back(to_ranges(cpus));
      link_->post(to_words(started));
      attempt.run();
      describe_end(attempt, ended);
    } catch (const CannotExecute& error) {
      ended.cannot_start = error.what();
      ended.status = error.status();
    } catch (const comm::Error& error) {
      ended.cannot_start = error.what();
      ended.status = 1;
    }
    if (lost_) return give_up_on_coordinator("; this node's ranks were killed");
    link_->post(to_words(ended, Clock::now()));
    if (attempt.interrupted_by() && leaves_when_interrupted()) leave_with(attempt);
  }

  void describe_end(const Attempt& attempt, Ended& ended) const {
    ended.ranks = attempt.ends();
    const std::optional<int> index = find_culprit(ended.ranks);
    if (!index) return;
    const RankEnd& failed = ended.ranks[static_cast<std::size_t>(*index)];
    ended.first_failed = failed.rank;
    ended.hint = hint(failed);
    const auto& lines = attempt.output(*index).tail();
    ended.tail.assign(lines.begin(), lines.end());
  }

  bool leaves_when_interrupted() const { return !nodes_.fixed_size() && !coordinator_; }

  // The others go on, if they are enough.
  void leave_with(const Attempt& attempt) {
    bool well = true;
    for (const RankEnd& rank : attempt.ends()) well = well && !rank.running && rank.code == 0;
    context_.say("stopped by " + signal_name(*attempt.interrupted_by()) + "; this node leaves the job\n");
    link_->flush(kLastWords);
    status_ = well ? 0 : 128 + *attempt.interrupted_by();
  }

  LaunchContext& context_;
  const LaunchOptions& options_;
  NodeOptions nodes_;
  const std::string host_;
  std::string secret_;
  std::optional<ReservedPort> reserved_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string not_coordinator_;  // why this agent is not, where it has tried
  bool everywhere_ = false;      // the coordinator listens on all interfaces
  std::optional<PublishedCoordinator> published_;
  std::unique_ptr<ControlLink> link_;
  std::optional<InputWatch> input_;

  int round_ = -1;
  bool connected_ = false;
  bool failure_told_ = false;
  std::map<int, Clock::time_point> last_signals_;
  std::optional<RoundPlan> plan_;
  std::optional<int> status_;
  std::optional<std::string> lost_;
};

}  // namespace

std::string agent_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// The program's arguments may differ from node to node, its name may not.
std::vector<std::pair<std::string, std::string>> agreed_settings(const LaunchOptions& options) {
  const NodeOptions& nodes = *options.nodes;
  const std::string most = nodes.fixed_size() ? "" : ":" + std::to_string(nodes.max_nodes);
  return {
      {"tutti's version of this conversation", kAgreementVersion},
      {"--rdzv-id", nodes.run_id},
      {"--nnodes", std::to_string(nodes.min_nodes) + most},
      {"the rendezvous", nodes.is_static() ? "static (--node-rank)" : "dynamic (--rdzv-endpoint)"},
      {"--max-restarts", std::to_string(options.max_restarts)},
      {"--no-store", options.store ? "not given" : "given"},
      {"--torch-store", options.torch_store ? "given" : "not given"},
      {"the program", std::filesystem::path(options.command.front()).filename().string()},
  };
}

int run_agent(LaunchContext& context) { return Agent(context).run(); }

}  // namespace tutti::tools
