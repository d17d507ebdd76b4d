// NodeRescuer: what an Attempt of an elastic job asks while its ranks run, so that the loss of one need not be the end
// of all. It tells how the node's processes fare, and hands over what the ElasticJob has decided for all nodes, in this
// process or in the coordinator's. Thread-safety: one thread, the launcher's main one.
#pragma once

#include <tutti/tools/run/nodes/messages.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class NodeRescuer {
 public:
  /// Gets what has changed since the last look, perhaps nothing. True: the failure is the job's.
  using Tell = std::function<bool(RanksChanged changed, RankEnd::Clock::time_point now)>;

  /// `control`: HOST:PORT where this node reaches the job's control store.
  NodeRescuer(int round, int node, std::string control, Tell tell);

  /// For the first start of a rank: "NAME=value".
  std::vector<std::string> environment(int local_rank) const;

  /// `ranks`: all processes that were started, in that order. Does not block for longer than the control store, in this
  /// process, takes to answer.
  RescueOrder look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now);
  /// The failure is the job's, as the last look() has found.
  bool gives_up() const { return gives_up_; }
  /// It has not been decided yet what follows the end of a rank: others may be started although none runs.
  bool waits() const { return waits_; }

  /// For the next look(), or for the one that calls Tell.
  void take(RescueOrder order) { orders_.push_back(std::move(order)); }

 private:
  struct Known {
    bool running = true;
    bool frozen = false;
    bool operator==(const Known&) const = default;
  };

  RanksChanged changes(std::span<const RankEnd> ranks);

  const int round_;
  const int node_;
  const std::string control_;  // "TUTTI_CONTROL=HOST:PORT"
  const Tell tell_;
  std::vector<Known> told_;  // by process
  std::vector<RescueOrder> orders_;
  bool gives_up_ = false;
  bool waits_ = false;
};

}  // namespace tutti::tools
