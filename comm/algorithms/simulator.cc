#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/schedule/step_graph.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::comm {
namespace {

using Node = StepGraph::Node;

/// Runs the schedules of all ranks from event to event; one object is one run.
class Engine {
 public:
  /// `copies` ranks follow the graph's schedule where it has one that stands for all; else 1. With one copy in a larger
  /// world a rank's messages to the rank `distance` further on are the ones that it receives from as far behind.
  /// `host_of` is empty or says the host of each rank. Graph, network, hosts and observers must outlive it.
  Engine(const StepGraph& graph, int copies, std::size_t element_bytes, const NetworkModel& network,
         const std::vector<int>& host_of, const TransferObserver& observer,
         const CompletionObserver& on_completion = {})
      : graph_(graph),
        copies_(static_cast<std::uint32_t>(copies)),
        element_bytes_(element_bytes),
        network_(network),
        observer_(observer),
        on_completion_(on_completion),
        host_of_(host_of),
        ports_(graph.ranks() * copies_) {
    for (std::uint32_t copy = 0; copy < copies_; ++copy)
      waits_.insert(waits_.end(), graph.waits().begin(), graph.waits().end());
    result_.finishes.resize(ports_.size());
  }

  /// Once. Throws InvalidArgument if the schedules wait for each other.
  Simulation run() {
    for (std::uint32_t copy = 0; copy < copies_; ++copy) {
      for (Node node = 0; node < graph_.size(); ++node) {
        if (graph_.waits()[node] == 0) release({copy, node});
      }
    }
    complete_local();
    start_messages();
    while (!events_.empty()) {
      // First all that happens at this time, then what can start because of it: the order of ranks decides nothing.
      const auto next = events_.begin();
      now_ = next->first;
      for (std::size_t i = 0; i < next->second.size(); ++i) handle(Event(next->second[i]));  // more may come meanwhile
      events_.erase(next);
      start_messages();
    }
    if (completed_ < waits_.size()) completion_order(graph_);  // throws, and says what waits for what
    return std::move(result_);
  }

 private:
  struct StepId {
    std::uint32_t copy;
    Node node;
    bool operator==(const StepId&) const = default;
  };
  struct Waiting {
    StepId send;   // of a message whose ends are both ready
    double since;  // when they were
    Node end;      // its step of the rank in whose list this is
    bool is_before(const Waiting& other) const { return since != other.since ? since < other.since : end < other.end; }
  };
  struct Ports {
    bool is_sending = false;
    bool is_receiving = false;
    double sending_since = 0;
    double reduces_until = 0;
    std::vector<Waiting> outgoing;  // sorted by is_before, as is
    std::vector<Waiting> incoming;
  };
  struct Event {
    StepId step;  // a send whose message has passed, or a reduction that is complete
    bool is_transfer;
  };
  static constexpr std::uint32_t kReleased = UINT32_MAX;

  const Step& step(StepId id) const { return graph_.step(id.node); }
  std::size_t rank(StepId id) const { return static_cast<std::size_t>(graph_.rank(id.node)) + id.copy; }
  std::uint32_t& waits(StepId id) { return waits_[id.copy * graph_.size() + id.node]; }
  StepId partner(StepId id) const {
    const std::uint32_t copy = copies_ == 1 ? 0 : (id.copy + static_cast<std::uint32_t>(step(id).peer)) % copies_;
    return {copy, graph_.partner(id.node)};
  }
  std::uint64_t bytes(StepId id) const {
    return (has_target(step(id)) ? step(id).target : step(id).source).count * element_bytes_;
  }
  double slowdown(std::size_t rank) const { return rank < network_.slowdown.size() ? network_.slowdown[rank] : 1; }
  bool is_local(std::size_t a, std::size_t b) const { return !host_of_.empty() && host_of_[a] == host_of_[b]; }

  void handle(const Event& event) {
    if (event.is_transfer) {
      end_transfer(event.step);
    } else {
      done_.push_back(event.step);
    }
    complete_local();
  }

  void done_with_one(StepId waiting) {
    if (--waits(waiting) == 0) release(waiting);
  }

  /// It waits for nothing more.
  void release(StepId id) {
    waits(id) = kReleased;
    switch (step(id).kind) {
      case Step::Kind::Copy:
        done_.push_back(id);
        break;
      case Step::Kind::Reduce:
        reduce(id);
        break;
      default:
        if (waits(partner(id)) == kReleased) enqueue_message(sends(step(id)) ? id : partner(id));
    }
  }

  void reduce(StepId id) {
    const double seconds = static_cast<double>(bytes(id)) * network_.gamma * slowdown(rank(id));
    double& busy = ports_[rank(id)].reduces_until;
    busy = std::max(busy, now_) + seconds;
    if (busy > now_) {
      events_[busy].push_back({id, false});
    } else {
      done_.push_back(id);
    }
  }

  void complete_local() {
    for (std::size_t i = 0; i < done_.size(); ++i) complete(done_[i]);
    done_.clear();
  }

  void complete(StepId id) {
    result_.finishes[rank(id)] = now_;
    ++completed_;
    if (on_completion_) on_completion_(static_cast<int>(rank(id)), graph_.index(id.node), now_);
    for (const Node dependent : graph_.dependents(id.node)) done_with_one({id.copy, dependent});
  }

  // --- Which message passes next

  void enqueue_message(StepId send) {
    const StepId receive = partner(send);
    enqueue(ports_[rank(send)].outgoing, {send, now_, send.node});
    enqueue(ports_[rank(receive)].incoming, {send, now_, receive.node});
    senders_.push_back(rank(send));
  }

  static void enqueue(std::vector<Waiting>& list, const Waiting& message) {
    auto place = list.end();
    while (place != list.begin() && message.is_before(*(place - 1))) --place;
    list.insert(place, message);
  }

  /// At all ports of which something has changed.
  void start_messages() {
    for (const std::size_t rank : senders_) start_first(ports_[rank].outgoing);
    for (const std::size_t rank : receivers_) start_first(ports_[rank].incoming);
    senders_.clear();
    receivers_.clear();
  }

  void start_first(const std::vector<Waiting>& messages) {
    for (const Waiting& message : messages) {
      const StepId send = message.send;
      const std::size_t from = rank(send), to = rank(partner(send));
      if (ports_[from].is_sending || ports_[to].is_receiving) continue;
      const auto is_it = [&](const Waiting& other) { return other.send == send; };
      std::erase_if(ports_[to].incoming, is_it);
      std::erase_if(ports_[from].outgoing, is_it);
      return start(send);
    }
  }

  void start(StepId send) {
    const std::size_t from = rank(send), to = rank(partner(send));
    ports_[from].is_sending = ports_[to].is_receiving = true;
    ports_[from].sending_since = now_;
    const double seconds = network_.message_seconds(static_cast<double>(bytes(send)), is_local(from, to)) *
                           std::max(slowdown(from), slowdown(to));
    events_[now_ + seconds].push_back({send, true});
  }

  void end_transfer(StepId send) {
    const StepId receive = partner(send);
    const std::size_t from = rank(send), to = rank(receive);
    if (observer_)
      observer_({static_cast<int>(from), static_cast<int>(to), bytes(send), ports_[from].sending_since, now_});
    ports_[from].is_sending = false;
    ports_[to].is_receiving = false;
    senders_.push_back(from);
    receivers_.push_back(to);
    done_.push_back(send);
    if (step(receive).kind == Step::Kind::RecvReduce) {
      reduce(receive);
    } else {
      done_.push_back(receive);
    }
    for (const StepId end : {send, receive}) {
      const Node next = graph_.next_message(end.node);
      if (next != StepGraph::kNone) done_with_one({end.copy, next});
    }
  }

  const StepGraph& graph_;
  const std::uint32_t copies_;
  const std::size_t element_bytes_;
  const NetworkModel& network_;
  const TransferObserver& observer_;
  const CompletionObserver on_completion_;
  const std::vector<int>& host_of_;  // per rank; empty: every message is remote

  std::vector<std::uint32_t> waits_;             // per step: how many it still waits for; or kReleased
  std::vector<Ports> ports_;                     // per rank
  std::map<double, std::vector<Event>> events_;  // by time; those of one time in the order in which they came
  std::vector<std::size_t> senders_;             // ranks whose sending port, or what could pass it, has changed
  std::vector<std::size_t> receivers_;           // ranks whose receiving port has become free
  std::vector<StepId> done_;                     // complete, but their dependents do not know yet
  double now_ = 0;
  std::size_t completed_ = 0;
  Simulation result_;
};

bool all_alike(const NetworkModel& network, const std::vector<int>& host_of) {
  return std::all_of(network.slowdown.begin(), network.slowdown.end(), [](double factor) { return factor == 1; }) &&
         std::all_of(host_of.begin(), host_of.end(), [&](int host) { return host == host_of.front(); });
}

}  // namespace

double Simulation::finish() const { return finishes.empty() ? 0 : std::ranges::max(finishes); }

Simulation simulate(std::span<const Schedule> schedules, std::size_t element_bytes, const NetworkModel& network,
                    const TransferObserver& observer, const CompletionObserver& on_completion) {
  const StepGraph graph(schedules, static_cast<int>(schedules.size()));
  const std::vector<int> no_hosts;
  return Engine(graph, 1, element_bytes, network, no_hosts, observer, on_completion).run();
}

Simulation simulate(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                    const NetworkModel& network, const TransferObserver& observer) {
  const int world_size = problem.world_size;
  const bool rotates = algorithms::rotates(problem, algorithm);
  std::vector<Schedule> schedules;
  Problem one = problem;
  for (one.rank = 0; one.rank < (rotates ? 1 : world_size); ++one.rank)
    schedules.push_back(algorithms::select(one, element_bytes, algorithm));
  const StepGraph graph(schedules, world_size);
  const bool one_for_all = rotates && all_alike(network, problem.hosts) && !observer;
  const int copies = rotates && !one_for_all ? world_size : 1;
  Simulation result = Engine(graph, copies, element_bytes, network, problem.hosts, observer).run();
  result.finishes.resize(static_cast<std::size_t>(world_size), result.finishes.front());
  return result;
}

}  // namespace tutti::comm
