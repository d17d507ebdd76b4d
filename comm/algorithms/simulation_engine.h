// SimulationEngine: runs the schedules of all ranks from event to event, on the network that simulator.h describes.
// Internal to comm/algorithms.
//
// Thread-safety: none; one object is one run.
#pragma once

#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/schedule/rank_program.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::comm {

class SimulationEngine {
 public:
  using Programs = std::vector<const RankProgram*>;

  /// Runs programs[r] as rank r. With a single program in a larger world, all ranks are that one: its messages to the
  /// rank `distance` further on are the ones that it receives from as far behind. `host_of` is empty or says the host
  /// of each rank. Programs, network and observer must outlive it. Throws InvalidArgument if a message has no
  /// counterpart.
  SimulationEngine(Programs programs, int world_size, const NetworkModel& network, const std::vector<int>& host_of,
                   const TransferObserver& observer, const CompletionObserver& on_completion = {});

  /// Once. Throws InvalidArgument if the schedules wait for each other.
  Simulation run();

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
  struct Host {
    std::vector<std::size_t> members;  // rising
    bool is_sending = false;           // to another host, where they share a port
    bool is_receiving = false;
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

  void connect(std::size_t rank);  // finds the other end of each of its lanes, and compares the messages
  std::string text(StepId id) const;
  void handle(const Event& event);
  void release(StepId id);  // it waits for nothing more
  void reduce(StepId id);
  void complete_local();
  void complete(StepId id);
  void require_all_complete();

  void settle(const std::vector<int>& host_of);  // numbers the hosts from 0 on
  void set_ready(LaneId here);                   // at this end the message whose turn it is on this lane is ready
  static void enqueue(std::vector<Waiting>& list, const Waiting& message);
  void start_messages();  // at all ports of which something has changed
  void start_first(const std::vector<Waiting>& messages);
  void start(LaneId from);
  void end_transfer(LaneId from);
  void next_message(LaneId from, LaneId to);

  bool is_local(std::size_t a, std::size_t b) const { return !host_of_.empty() && host_of_[a] == host_of_[b]; }
  /// Whether a message from `from` to `to` passes ports that belong to whole hosts.
  bool takes_host_ports(std::size_t from, std::size_t to) const {
    return network_.hosts_share_a_port && !host_of_.empty() && !is_local(from, to);
  }
  bool host_ports_are_busy(std::size_t from, std::size_t to) const {
    return takes_host_ports(from, to) && (hosts_[host_of_[from]].is_sending || hosts_[host_of_[to]].is_receiving);
  }
  void free_host_ports(std::size_t from, std::size_t to);
  /// All ranks of the host of `rank`, itself last: the rank that has just had the port lets the others go first.
  void wake_neighbours(std::size_t rank, std::vector<std::size_t>& list) const;

  Programs programs_;
  int world_size_;
  const NetworkModel& network_;
  const TransferObserver& observer_;
  const CompletionObserver on_completion_;
  std::vector<Host> hosts_;
  std::vector<std::size_t> host_of_;  // per rank; empty: every message is remote

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

}  // namespace tutti::comm
