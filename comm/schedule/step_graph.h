// StepGraph: the steps of all ranks, and what each of them waits for. The checker and the simulator complete step after
// step along it.
//
// Immutable after construction; any thread may read it.
#pragma once

#include <tutti/comm/schedule/schedule.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

class StepGraph {
 public:
  /// A step of any rank, by one number, which rises with the rank and its step. kNone where there is no such step.
  using Node = std::uint32_t;
  static constexpr Node kNone = UINT32_MAX;

  /// Pairs the k-th send from a to b with the k-th receive at b from a. schedules[r] is rank r's; they must outlive the
  /// graph. A single schedule in a larger world is rank 0's, and that of all others with their rank added (mod
  /// world_size) to every peer. Throws InvalidArgument that names rank and step if a peer is not another rank of the
  /// world, `after` names a step that is not earlier, or a message finds no counterpart of its length.
  StepGraph(std::span<const Schedule> schedules, int world_size);

  std::size_t ranks() const { return schedules_.size(); }
  std::size_t size() const { return rank_of_.size(); }
  Node node(std::size_t rank, std::size_t index) const { return first_[rank] + static_cast<Node>(index); }
  int rank(Node node) const { return rank_of_[node]; }
  std::uint32_t index(Node node) const { return node - first_[static_cast<std::size_t>(rank(node))]; }
  const Step& step(Node node) const { return schedules_[static_cast<std::size_t>(rank(node))].steps[index(node)]; }
  std::string text(Node node) const { return describe(rank(node), index(node), step(node)); }

  /// The other end of a message; kNone for local steps.
  Node partner(Node node) const { return partner_[node]; }
  /// The next message of the same two ranks in the same direction, which must not pass before this one.
  Node next_message(Node node) const { return next_message_[node]; }
  /// The steps that name this one in `after`.
  std::span<const Node> dependents(Node node) const {
    return std::span(dependents_).subspan(first_dependent_[node], first_dependent_[node + 1] - first_dependent_[node]);
  }
  /// Of each step: how many steps it waits for, by `after` and as the next message.
  const std::vector<std::uint32_t>& waits() const { return waits_; }

 private:
  void connect_steps(int world_size);
  void match_messages(int world_size);

  std::span<const Schedule> schedules_;
  std::vector<Node> first_;                     // per rank
  std::vector<int> rank_of_;                    // per node, as the rest
  std::vector<std::uint32_t> first_dependent_;  // and one more
  std::vector<Node> dependents_;
  std::vector<Node> partner_;
  std::vector<Node> next_message_;
  std::vector<std::uint32_t> waits_;
};

/// An order in which all steps can complete; a message is there once, by its send. It passes only when both its ends
/// are ready (a transport that buffers nothing): what ends here ends on every transport. Throws InvalidArgument that
/// explains a step that can never complete by what it waits for.
std::vector<StepGraph::Node> completion_order(const StepGraph& graph);

}  // namespace tutti::comm
