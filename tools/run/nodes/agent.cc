#include <poll.h>
#include <sys/epoll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/attempt.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/nodes/judge.h>
#include <tutti/tools/run/reserved_port.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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
constexpr milliseconds kPublishing{1000};  // to the store in this very process

/// How an agent gets to the control store: it serves it, or finds who does.
///
/// Agents that a scheduler has started meet without an address: node 0's agent shows where it coordinates in a file of
/// the folder that ranks would meet in (comm/bootstrap/meeting_file.h); the others look into it while they connect.
class Meeting {
 public:
  /// `host`: this node's name, for people. options.nodes must be set.
  Meeting(const LaunchOptions& options, std::string host)
      : options_(options), nodes_(*options.nodes), host_(std::move(host)) {}
  ~Meeting() {
    if (!nonce_.empty()) comm::MeetingFile(nodes_.meeting_file, secret_).withdraw(nonce_);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Becomes the coordinator, where that is this agent's part. Throws comm::Error.
  void begin() {
    if (!options_.store) reserved_.emplace("0.0.0.0");
    secret_ = comm::job_secret();
    start_coordinator();
  }

  /// A connection on its way to the control store, with this agent's hello.
  std::unique_ptr<ControlLink> link() const {
    NodeOptions nodes = nodes_;
    if (coordinates()) nodes.meeting_file.clear();  // this agent knows its own address
    // A name of this very host may stand for an address that only this host has.
    const std::string outward = everywhere_ ? comm::default_route_address() : "";
    if (!outward.empty()) nodes.addresses = {outward, nodes_.host};
    return std::make_unique<ControlLink>(nodes, secret_, hello());
  }

  bool coordinates() const { return coordinator_ != nullptr; }
  const std::string& secret() const { return secret_; }
  /// Why this agent does not coordinate, where it has tried to; else "".
  const std::string& obstacle() const { return obstacle_; }

  /// "host:port", or in which file that stands.
  std::string place() const {
    if (!nodes_.meeting_file.empty() && !coordinates())
      return "the address that the agent of node 0 publishes in " + nodes_.meeting_file;
    return nodes_.host + ":" + std::to_string(nodes_.port);
  }

 private:
  // A scheduler's coordinator shows its port once it has one.
  std::string about() const {
    std::string how = nodes_.is_static() ? "--master-addr" : "--rdzv-endpoint";
    if (!nodes_.meeting_file.empty()) how = "shown to the others in " + nodes_.meeting_file;
    const bool from_environment = std::getenv("TUTTI_JOB_SECRET") != nullptr;
    return "agents meet at " + (nodes_.port == 0 ? nodes_.host : place()) + " (" + how + "), secret from " +
           (from_environment ? "TUTTI_JOB_SECRET" : "the home folder");
  }

  Hello hello() const {
    Hello hello;
    hello.node_rank = nodes_.node_rank;
    hello.is_coordinators = coordinates();
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
    if (!nodes_.meeting_file.empty()) nodes_.host = comm::reachable_addresses(true).front();
    const CoordinatorOptions options{.nodes = nodes_,
                                     .bind_address = coordinator_bind_address(nodes_.host),
                                     .job_secret = secret_,
                                     .own = hello(),
                                     .about = about(),
                                     .launch = options_};
    try {
      coordinator_ = std::make_unique<Coordinator>(options);
      everywhere_ = options.bind_address.empty();
    } catch (const comm::Error& error) {
      if (nodes_.is_static())
        throw comm::Error(error.code(),
                          std::string(error.what()) + " (the agent with --node-rank 0 serves --master-addr)");
      obstacle_ = error.what();  // another agent is; or whoever holds the port will turn out to be a stranger
      return;
    }
    nodes_.port = coordinator_->port();
    if (!nodes_.meeting_file.empty()) publish();
  }

  // Shows the coordinator's address to the other agents as long as this agent lives.
  void publish() {
    comm::World world;
    world.world_size = nodes_.max_nodes;
    world.job_id = std::filesystem::path(nodes_.meeting_file).stem().string();
    const comm::Announcement announcement = comm::own_announcement(world, {nodes_.host}, nodes_.port);
    const comm::Deadline soon = comm::Deadline::after(kPublishing);
    comm::TcpStore store({.host = nodes_.host, .port = nodes_.port, .job_id = kControlJob, .job_secret = secret_},
                         soon);
    store.set(kNonceKey, announcement.nonce, soon);
    comm::MeetingFile(nodes_.meeting_file, secret_).publish(announcement);
    nonce_ = announcement.nonce;
  }

  const LaunchOptions& options_;
  NodeOptions nodes_;  // with the place that was found
  const std::string host_;
  std::string secret_;
  std::optional<ReservedPort> reserved_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string obstacle_;
  bool everywhere_ = false;  // the coordinator listens on all interfaces
  std::string nonce_;        // of what stands in the meeting file; "": nothing of this agent's
};

class Agent final : public AttemptControl {
 public:
  explicit Agent(LaunchContext& context)
      : context_(context),
        options_(context.options),
        nodes_(*context.options.nodes),
        host_(nodes_.node_name.empty() ? comm::host_name() : nodes_.node_name),
        meeting_(context.options, host_) {}

  int run() {
    if (!options_.log_dir.empty()) std::filesystem::create_directories(options_.log_dir);
    meeting_.begin();
    link_ = meeting_.link();
    watch(link_->fd());
    if (nodes_.remote) watch(STDIN_FILENO);
    while (!status_) {
      if (plan_) {
        run_round(*std::exchange(plan_, std::nullopt));
      } else {
        wait();
      }
    }
    link_.reset();  // says goodbye before the coordinator waits for that
    return *status_;
  }

  // ---- for the Attempt ----

  int fd() const override { return watched_.get(); }

  std::vector<Order> take_orders() override {
    look_at_input();
    std::vector<Order> orders;
    while (std::optional<LinkEvent> event = link_->next()) {
      if (event->kind == LinkEvent::Kind::Lost) {
        lost_ = event->text;
        orders.push_back({round_, Order::Act::Kill});
      } else if (auto order = take(*event)) {
        orders.push_back(std::move(*order));
      }
    }
    return orders;
  }

  void ranks_changed(const std::vector<RankEnd>& ranks) override {
    if (!ranks.empty()) link_->post(Report{round_, ranks});
  }

  void signal_came(int signal, bool again) override {
    last_signals_[signal] = Clock::now();
    asked_to_end_ = asked_to_end_ || asks_to_end(signal);
    if (asks_to_end(signal) || meeting_.coordinates()) link_->post(Signalled{signal, again});
  }

 private:
  void watch(int fd) {
    epoll_event readable{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(watched_.get(), EPOLL_CTL_ADD, fd, &readable) != 0)
      comm::throw_errno("cannot watch a descriptor", errno);
  }

  // When standard input ends, the connection of the launcher that has started this agent is gone.
  void look_at_input() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char bytes[256];
    if (!nodes_.remote || input_ended_ || ::poll(&input, 1, 0) <= 0) return;
    if (::read(STDIN_FILENO, bytes, sizeof(bytes)) > 0) return;
    input_ended_ = true;
    ::epoll_ctl(watched_.get(), EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    link_->lose("the launcher's connection has ended");
  }

  // Waits for a signal or an event while no ranks run.
  void wait() {
    std::vector<pollfd> entries{{context_.signals.fd(), POLLIN, 0}, {fd(), POLLIN, 0}};
    context_.console.add_poll_entries(entries);
    if (::poll(entries.data(), entries.size(), -1) < 0) return;
    for (std::size_t i = 2; i < entries.size(); ++i) context_.console.handle(entries[i]);
    while (const std::optional<int> signal = context_.signals.next()) {
      if (asks_to_end(*signal)) leave(*signal);
    }
    look_at_input();
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
    const bool again = std::exchange(asked_to_end_, true);
    last_signals_[signal] = Clock::now();
    link_->post(Signalled{signal, again});
    if (meeting_.coordinates() && !again) return;
    context_.say("stopped by " + signal_name(signal) + "\n");
    link_->flush(connected_ ? kLastWords : milliseconds(0));
    status_ = 128 + signal;
  }

  std::optional<Order> take(const LinkEvent& event) {
    if (event.kind == LinkEvent::Kind::Connected) connected_ = true;
    if (event.kind == LinkEvent::Kind::Waiting)
      context_.say("waiting for the coordinator at " + meeting_.place() + ": " + event.text +
                   (meeting_.obstacle().empty() ? "" : "; this node cannot be it: " + meeting_.obstacle()) + "\n");
    if (event.kind != LinkEvent::Kind::Told) return std::nullopt;
    if (const auto* order = std::get_if<Order>(&event.message)) return taken(*order);
    if (const auto* plan = std::get_if<RoundPlan>(&event.message)) {
      if (plan->node_of(link_->agent())) plan_ = *plan;
    } else if (const auto* verdict = std::get_if<Verdict>(&event.message)) {
      take_verdict(*verdict);
    } else if (const auto* notice = std::get_if<Notice>(&event.message)) {
      context_.say(notice->text);
    }
    return std::nullopt;
  }

  // Nothing for an order of another round, and for a signal that this agent has got itself: schedulers send one to all
  // agents, and the forwarded one is the same.
  std::optional<Order> taken(const Order& order) const {
    if (order.round != round_) return std::nullopt;
    const auto known = last_signals_.find(order.signal);
    const bool is_known = known != last_signals_.end() && Clock::now() < known->second + kSameSignal;
    if (order.act == Order::Act::Signal && is_known) return std::nullopt;
    return order;
  }

  // The coordinator's agent shows all that is known; the others name the cause.
  void take_verdict(const Verdict& verdict) {
    if (!verdict.summary.empty()) {
      const std::string cause = verdict.summary.substr(0, verdict.summary.find('\n') + 1);
      if (!nodes_.remote) context_.say(meeting_.coordinates() ? verdict.summary : cause);  // the launcher shows it
    }
    if (verdict.final) status_ = verdict.status;
  }

  std::string coordinators_place() const {
    return connected_ && !nodes_.meeting_file.empty() ? link_->server_address() : meeting_.place();
  }

  void give_up_on_coordinator(const std::string& what_of_ranks) {
    context_.say(
        std::string(connected_ ? "lost the coordinator at " : "there is no coordinator at ") + coordinators_place() +
        ": " + *lost_ + what_of_ranks +
        (meeting_.obstacle().empty() ? "" : "\n  This node cannot be the coordinator: " + meeting_.obstacle()) + "\n");
    status_ = 1;
  }

  void run_round(const RoundPlan& plan) {
    round_ = plan.round;
    JobEnvironment job{plan, *plan.node_of(link_->agent()), meeting_.secret(), options_.max_restarts};
    if (plan.master_addr.empty()) job.plan.master_addr = link_->server_address();
    Attempt attempt(context_, job, *this);
    Report ended{.round = plan.round, .over = true};
    try {
      attempt.start();
      attempt.run();
      ended.ranks = attempt.ends();
    } catch (const CannotExecute& error) {
      ended.cannot_start = error.what();
      ended.status = error.status();
    } catch (const comm::Error& error) {
      ended.cannot_start = error.what();
      ended.status = 1;
    }
    if (lost_) return give_up_on_coordinator("; this node's ranks were killed");
    link_->post(ended);
    if (attempt.interrupted_by() && leaves_when_interrupted()) leave_with(attempt);
  }

  // The signal came to this agent, and the job is not its to end.
  bool leaves_when_interrupted() const { return asked_to_end_ && !nodes_.fixed_size() && !meeting_.coordinates(); }

  // The others go on, if they are enough.
  void leave_with(const Attempt& attempt) {
    const bool well = std::all_of(attempt.ends().begin(), attempt.ends().end(), ended_well);
    context_.say("stopped by " + signal_name(*attempt.interrupted_by()) + "; this node leaves the job\n");
    link_->flush(kLastWords);
    status_ = well ? 0 : 128 + *attempt.interrupted_by();
  }

  LaunchContext& context_;
  const LaunchOptions& options_;
  const NodeOptions& nodes_;
  const std::string host_;
  Meeting meeting_;
  std::unique_ptr<ControlLink> link_;
  const comm::Socket watched_{::epoll_create1(EPOLL_CLOEXEC)};  // the link, and standard input
  bool input_ended_ = false;

  int round_ = -1;
  bool connected_ = false;
  bool asked_to_end_ = false;  // by a signal to this very process
  std::map<int, Clock::time_point> last_signals_;
  std::optional<RoundPlan> plan_;
  std::optional<int> status_;
  std::optional<std::string> lost_;
};

}  // namespace

int run_agent(LaunchContext& context) { return Agent(context).run(); }

}  // namespace tutti::tools
