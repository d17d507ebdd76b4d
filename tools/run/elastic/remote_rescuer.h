// RemoteRescuer: the Rescuer of one node of an elastic job. It tells the coordinator how its processes fare, and does
// what the coordinator's ElasticRound has decided for all nodes. One thread: the agent's main one.
#pragma once

#include <tutti/tools/run/elastic/elastic_messages.h>
#include <tutti/tools/run/elastic/rescuer.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class RemoteRescuer final : public Rescuer {
 public:
  using Post = std::function<void(Words message)>;

  /// `control_host`: where this node reaches the coordinator; the job's control store is there, too.
  RemoteRescuer(const RoundPlan& plan, int node, const std::string& control_host, Post post);

  std::chrono::milliseconds look_every() const override { return std::chrono::milliseconds(100); }
  std::vector<std::string> environment(int local_rank) const override;
  RescuePlan look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) override;
  bool waits() const override { return waits_; }

  /// For the next look().
  void take(RescueOrder order) { orders_.push_back(std::move(order)); }

 private:
  struct Known {
    bool running = true;
    bool frozen = false;
    bool operator==(const Known&) const = default;
  };

  void tell_changes(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now);

  const int round_;
  const int node_;
  const std::string control_;  // HOST:PORT
  const Post post_;
  std::vector<Known> told_;  // by process
  std::deque<RescueOrder> orders_;
  bool waits_ = false;
};

}  // namespace tutti::tools
