#include <poll.h>
#include <sys/epoll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/attempt.h>
#include <tutti/tools/run/elastic/node_rescuer.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/judge.h>
#include <tutti/tools/run/nodes/meeting.h>
#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/round_stores.h>
#include <unistd.h>

#include <cerrno>
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

  std::optional<Order> next_order() override {
    look_at_input();
    while (std::optional<LinkEvent> event = link_->next()) {
      if (event->kind == LinkEvent::Kind::Lost) {
        lost_ = event->text;
        return Order{round_, Order::Act::Kill, 0};
      }
      if (const auto order = take(*event)) return order;
    }
    return std::nullopt;
  }

  void rank_failed(const RankEnd&) override {
    if (rescuer_) return;  // it has told, and what follows is decided elsewhere
    if (!failure_told_) link_->post(Failed{round_});
    failure_told_ = true;
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
    if (const auto* rescue = std::get_if<RescueOrder>(&event.message)) {
      if (rescuer_ && rescue->round == round_) rescuer_->take(*rescue);
    } else if (const auto* plan = std::get_if<RoundPlan>(&event.message)) {
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
    failure_told_ = false;
    const JobEnvironment job = environment_of(plan, *plan.node_of(link_->agent()), link_->server_address(),
                                              meeting_.secret(), options_.max_restarts);
    rescuer_.reset();
    if (options_.elastic) {
      rescuer_.emplace(plan.round, job.node, comm::host_and_port(link_->server_address(), plan.control_port),
                       [this](RanksChanged changed, Clock::time_point) {
                         if (!changed.places.empty()) link_->post(std::move(changed));
                         return false;  // what follows the coordinator decides
                       });
    }
    Attempt attempt(context_, job, this, rescuer_ ? &*rescuer_ : nullptr);
    Ended ended;
    try {
      attempt.start(find_program(options_.command.front()));
      Started started{plan.round, {}, {}};
      for (const RankEnd& rank : attempt.ends()) started.pids.push_back(rank.pid);
      for (const std::vector<int>& cpus : options_.local.cpus) started.cores.push_back(to_ranges(cpus));
      link_->post(started);
      attempt.run();
      ended = describe_end(attempt);
    } catch (const CannotExecute& error) {
      ended.cannot_start = error.what();
      ended.status = error.status();
    } catch (const comm::Error& error) {
      ended.cannot_start = error.what();
      ended.status = 1;
    }
    if (lost_) return give_up_on_coordinator("; this node's ranks were killed");
    ended.round = plan.round;
    link_->post(ended);
    if (attempt.interrupted_by() && leaves_when_interrupted()) leave_with(attempt);
  }

  // The signal came to this agent, and the job is not its to end.
  bool leaves_when_interrupted() const { return asked_to_end_ && !nodes_.fixed_size() && !meeting_.coordinates(); }

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
  const NodeOptions& nodes_;
  const std::string host_;
  Meeting meeting_;
  std::unique_ptr<ControlLink> link_;
  const comm::Socket watched_{::epoll_create1(EPOLL_CLOEXEC)};  // the link, and standard input
  bool input_ended_ = false;
  std::optional<NodeRescuer> rescuer_;  // of the present round, in an elastic job

  int round_ = -1;
  bool connected_ = false;
  bool failure_told_ = false;
  bool asked_to_end_ = false;  // by a signal to this very process
  std::map<int, Clock::time_point> last_signals_;
  std::optional<RoundPlan> plan_;
  std::optional<int> status_;
  std::optional<std::string> lost_;
};

}  // namespace

int run_agent(LaunchContext& context) { return Agent(context).run(); }

}  // namespace tutti::tools
