// NodeRescuer: the Rescuer of one node of an elastic job. It tells how its processes fare, and does what the ElasticJob
// has decided for all nodes, in this process or in the coordinator's. Thread-safety: one thread, the launcher's main
// one.
#pragma once

#include <tutti/tools/run/attempt_control.h>
#include <tutti/tools/run/nodes/messages.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class NodeRescuer final : public Rescuer {
 public:
  /// Gets what has changed since the last look, perhaps nothing. True: the failure is the job's.
  using Tell = std::function<bool(RanksChanged changed, RankEnd::Clock::time_point now)>;

  /// `control`: HOST:PORT where this node reaches the job's control store.
  NodeRescuer(int round, int node, std::string control, Tell tell);

  std::vector<std::string> environment(int local_rank) const override;
  RescuePlan look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) override;
  bool waits() const override { return waits_; }

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
  std::deque<RescueOrder> orders_;
  bool waits_ = false;
};

}  // namespace tutti::tools
