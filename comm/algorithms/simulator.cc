#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/rank_program.h>
#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

using Programs = std::vector<const RankProgram*>;

/// Runs the schedules of all ranks from event to event; one object is one run.
class Engine {
 public:
  /// Runs programs[r] as rank r. With a single program in a larger world, all ranks are that one: its messages to the
  /// rank `distance` further on are the ones that it receives from as far behind. `host_of` is empty or says the host
  /// of each rank. Programs, network, hosts and observer must outlive it. Throws InvalidArgument if a message has no
  /// counterpart.
  Engine(Programs programs, int world_size, const NetworkModel& network, const std::vector<int>& host_of,
         const TransferObserver& observer, const CompletionObserver& on_completion = {})
      : programs_(std::move(programs)),
        world_size_(world_size),
        network_(network),
        observer_(observer),
        on_completion_(on_completion),
        host_of_(host_of) {
    for (const RankProgram* program : programs_) {
      first_step_.push_back(waits_.size());
      first_lane_.push_back(lanes_.size());
      for (const auto& step : program->steps) waits_.push_back(step.waits_for);
      lanes_.resize(lanes_.size() + program->lanes.size());
    }
    ports_.resize(programs_.size());
    result_.ranks.resize(programs_.size());
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) connect(rank);
  }

  /// Once. Throws InvalidArgument if the schedules wait for each other.
  Simulation run() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      const auto size = static_cast<std::uint32_t>(programs_[rank]->steps.size());
      for (std::uint32_t step = 0; step < size; ++step) {
        if (programs_[rank]->steps[step].waits_for == 0) release({rank, step});
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
    require_all_complete();
    return std::move(result_);
  }

 private:
  struct StepId {
    std::size_t rank;
    std::uint32_t step;
  };
  struct LaneId {
    std::size_t rank = 0;
    std::uint32_t lane = 0;
    bool operator==(const LaneId&) const = default;
  };
  struct LaneState {
    LaneId peer;               // the other end
    std::uint32_t cursor = 0;  // the message whose turn it is
    bool is_ready = false;     // its step waits for nothing more
  };
  struct Waiting {
    LaneId from;         // the sending lane of a message whose ends are both ready
    double since;        // when they were
    std::uint32_t step;  // of the rank in whose list this is
    bool is_before(const Waiting& other) const {
      return since != other.since ? since < other.since : step < other.step;
    }
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
    std::size_t rank;
    std::uint32_t index;  // sending lane, or reducing step
    bool is_transfer;
  };

  const RankProgram::CompactStep& step(StepId id) const { return programs_[id.rank]->steps[id.step]; }
  const RankProgram::Lane& lane(LaneId id) const { return programs_[id.rank]->lanes[id.lane]; }
  LaneState& state(LaneId id) { return lanes_[first_lane_[id.rank] + id.lane]; }
  std::uint32_t& waits(StepId id) { return waits_[first_step_[id.rank] + id.step]; }
  StepId head(LaneId id) { return {id.rank, lane(id).steps[state(id).cursor]}; }
  double slowdown(std::size_t rank) const { return rank < network_.slowdown.size() ? network_.slowdown[rank] : 1; }

  bool is_local(std::size_t a, std::size_t b) const { return !host_of_.empty() && host_of_[a] == host_of_[b]; }

  /// Finds the other end of each of its lanes, and compares the messages.
  void connect(std::size_t rank) {
    const RankProgram& program = *programs_[rank];
    for (std::uint32_t i = 0; i < program.lanes.size(); ++i) {
      const RankProgram::Lane& lane = program.lanes[i];
      const std::size_t peer = (rank + static_cast<std::size_t>(lane.distance)) % static_cast<std::size_t>(world_size_);
      const std::size_t other = programs_.size() == 1 ? 0 : peer;
      const RankProgram& theirs = *programs_[other];
      const RankProgram::Lane* match = theirs.find_lane(!lane.is_send, world_size_ - lane.distance);
      for (std::size_t k = 0; k < lane.steps.size(); ++k) {
        if (match == nullptr || k >= match->steps.size() ||
            theirs.steps[match->steps[k]].bytes != program.steps[lane.steps[k]].bytes) {
          throw Error(ErrorCode::InvalidArgument, text({rank, lane.steps[k]}) + " has no counterpart of its length");
        }
      }
      state({rank, i}).peer = {other, static_cast<std::uint32_t>(match - theirs.lanes.data())};
    }
  }

  std::string text(StepId id) const {
    const RankProgram::CompactStep& what = step(id);
    std::string result = "step " + std::to_string(id.step) + " at rank " + std::to_string(id.rank);
    if (what.kind == Step::Kind::Copy || what.kind == Step::Kind::Reduce) return result;
    const RankProgram::Lane& on = programs_[id.rank]->lanes[what.lane];
    const int peer = (static_cast<int>(id.rank) + on.distance) % world_size_;
    return result + (on.is_send ? " (sends " : " (receives ") + std::to_string(what.bytes) + " bytes " +
           (on.is_send ? "to" : "from") + " rank " + std::to_string(peer) + ")";
  }

  void handle(const Event& event) {
    if (event.is_transfer) {
      end_transfer({event.rank, event.index});
    } else {
      done_.push_back({event.rank, event.index});
    }
    complete_local();
  }

  /// It waits for nothing more.
  void release(StepId id) {
    const RankProgram::CompactStep& what = step(id);
    switch (what.kind) {
      case Step::Kind::Copy:
        done_.push_back(id);
        break;
      case Step::Kind::Reduce:
        reduce(id);
        break;
      default:
        if (state({id.rank, what.lane}).cursor == what.ordinal) set_ready({id.rank, what.lane});
    }
  }

  void reduce(StepId id) {
    const double seconds = static_cast<double>(step(id).bytes) * network_.gamma * slowdown(id.rank);
    double& busy = ports_[id.rank].reduces_until;
    busy = std::max(busy, now_) + seconds;
    if (busy > now_) {
      events_[busy].push_back({id.rank, id.step, false});
    } else {
      done_.push_back(id);
    }
  }

  void complete_local() {
    for (std::size_t i = 0; i < done_.size(); ++i) complete(done_[i]);
    done_.clear();
  }

  void complete(StepId id) {
    result_.ranks[id.rank].finish = now_;
    ++completed_;
    if (on_completion_) on_completion_(static_cast<int>(id.rank), id.step, now_);
    for (const std::uint32_t dependent : programs_[id.rank]->dependents(id.step)) {
      if (--waits({id.rank, dependent}) == 0) release({id.rank, dependent});
    }
  }

  void require_all_complete() {
    if (completed_ == waits_.size()) return;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      for (std::uint32_t i = 0; i < programs_[rank]->lanes.size(); ++i) {
        if (state({rank, i}).cursor == lane({rank, i}).steps.size()) continue;
        throw Error(ErrorCode::InvalidArgument,
                    "the schedules wait for each other: " + text(head({rank, i})) + " can never complete");
      }
    }
  }

  // --- Which message passes next

  /// At this end the message whose turn it is on this lane is ready.
  void set_ready(LaneId here) {
    state(here).is_ready = true;
    const LaneId there = state(here).peer;
    if (!state(there).is_ready) return;
    const LaneId from = lane(here).is_send ? here : there;
    const LaneId to = lane(here).is_send ? there : here;
    enqueue(ports_[from.rank].outgoing, {from, now_, head(from).step});
    enqueue(ports_[to.rank].incoming, {from, now_, head(to).step});
    senders_.push_back(from.rank);
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
      const LaneId from = message.from;
      const std::size_t to = state(from).peer.rank;
      if (ports_[from.rank].is_sending || ports_[to].is_receiving) continue;
      const auto is_it = [&](const Waiting& other) { return other.from == from; };
      std::erase_if(ports_[to].incoming, is_it);
      std::erase_if(ports_[from.rank].outgoing, is_it);
      return start(from);
    }
  }

  void start(LaneId from) {
    const std::size_t to = state(from).peer.rank;
    const std::uint64_t bytes = step(head(from)).bytes;
    ports_[from.rank].is_sending = ports_[to].is_receiving = true;
    ports_[from.rank].sending_since = now_;
    result_.ranks[from.rank].messages_sent += 1;
    result_.ranks[from.rank].bytes_sent += bytes;
    result_.ranks[to].messages_received += 1;
    result_.ranks[to].bytes_received += bytes;
    const double seconds = network_.message_seconds(static_cast<double>(bytes), is_local(from.rank, to)) *
                           std::max(slowdown(from.rank), slowdown(to));
    events_[now_ + seconds].push_back({from.rank, from.lane, true});
  }

  void end_transfer(LaneId from) {
    const LaneId to = state(from).peer;
    const StepId sent = head(from);
    const StepId received = head(to);
    if (observer_) {
      observer_({static_cast<int>(from.rank), static_cast<int>(to.rank), step(sent).bytes,
                 ports_[from.rank].sending_since, now_});
    }
    ports_[from.rank].is_sending = false;
    ports_[to.rank].is_receiving = false;
    senders_.push_back(from.rank);
    receivers_.push_back(to.rank);
    done_.push_back(sent);
    if (step(received).kind == Step::Kind::RecvReduce) {
      reduce(received);
    } else {
      done_.push_back(received);
    }
    next_message(from, to);
  }

  void next_message(LaneId from, LaneId to) {
    for (const LaneId end : {from, to}) {
      state(end).is_ready = false;
      ++state(end).cursor;
    }
    if (state(from).cursor == lane(from).steps.size()) return;
    for (const LaneId end : {from, to}) {
      if (waits(head(end)) == 0) set_ready(end);
    }
  }

  Programs programs_;
  int world_size_;
  const NetworkModel& network_;
  const TransferObserver& observer_;
  const CompletionObserver on_completion_;
  const std::vector<int>& host_of_;  // per rank; empty: every message is remote

  std::vector<std::size_t> first_step_;  // per rank: where its part of waits_ begins
  std::vector<std::size_t> first_lane_;
  std::vector<std::uint32_t> waits_;  // per step: how many it still waits for
  std::vector<LaneState> lanes_;
  std::vector<Ports> ports_;
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

Programs pointers(const std::vector<RankProgram>& programs) {
  Programs result;
  for (const RankProgram& program : programs) result.push_back(&program);
  return result;
}

}  // namespace

double Simulation::finish() const {
  double last = 0;
  for (const RankTimes& rank : ranks) last = std::max(last, rank.finish);
  return last;
}

Simulation simulate(std::span<const Schedule> schedules, std::size_t element_bytes, const NetworkModel& network,
                    const TransferObserver& observer, const CompletionObserver& on_completion) {
  const int world_size = static_cast<int>(schedules.size());
  std::vector<RankProgram> programs;
  for (int rank = 0; rank < world_size; ++rank) {
    programs.emplace_back(schedules[static_cast<std::size_t>(rank)], rank, world_size, element_bytes);
  }
  const std::vector<int> no_hosts;
  return Engine(pointers(programs), world_size, network, no_hosts, observer, on_completion).run();
}

Simulation simulate(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                    const NetworkModel& network, const TransferObserver& observer) {
  const int world_size = problem.world_size;
  const auto size = static_cast<std::size_t>(world_size);
  std::vector<RankProgram> programs;
  Problem one = problem;
  const bool rotates = algorithms::rotates(problem, algorithm);
  for (one.rank = 0; one.rank < (rotates ? 1 : world_size); ++one.rank) {
    programs.emplace_back(algorithms::select(one, element_bytes, algorithm), one.rank, world_size, element_bytes);
  }
  if (!rotates) return Engine(pointers(programs), world_size, network, problem.hosts, observer).run();

  const bool one_for_all = all_alike(network, problem.hosts) && !observer;
  const Programs all(one_for_all ? 1 : size, &programs.front());
  Simulation result = Engine(all, world_size, network, problem.hosts, observer).run();
  result.ranks.resize(size, result.ranks.front());
  return result;
}

}  // namespace tutti::comm
