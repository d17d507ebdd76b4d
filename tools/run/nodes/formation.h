// Formation: which agents make the next round, and when. A pure state machine; time is given to it.
#pragma once

#include <tutti/tools/run/nodes/messages.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class Formation {
 public:
  using Clock = std::chrono::steady_clock;

  /// `own`: settings, host and pid of the coordinator's process, whether it brings ranks or not.
  Formation(const NodeOptions& options, Hello own) : options_(options), own_(std::move(own)) {}

  /// Why this agent cannot take part: settings that differ from the coordinator's own (both values are told), a place
  /// that is taken or does not exist. "" if it can.
  std::string objection(const Hello& hello) const;

  void add(int agent, const Hello& hello) { agents_[agent] = hello; }
  void remove(int agent) { agents_.erase(agent); }
  const std::map<int, Hello>& agents() const { return agents_; }

  /// Gathering begins (again); waiting times count from now.
  void begin(Clock::time_point now);

  /// The agents of the next round in order of GROUP_RANK, if it is time; `keep_order`: those of the last round.
  std::optional<std::vector<int>> ready(Clock::time_point now, const std::vector<int>& keep_order);

  bool timed_out(Clock::time_point now) const { return now >= started_ + options_.join_timeout; }

  /// "2 of 4 nodes are here; waiting for --node-rank 1 and 3".
  std::string progress() const;

 private:
  std::optional<std::vector<int>> static_order() const;

  const NodeOptions options_;
  const Hello own_;
  std::map<int, Hello> agents_;
  Clock::time_point started_{};
  std::optional<Clock::time_point> enough_since_;
  int rounds_ = 0;
};

}  // namespace tutti::tools
