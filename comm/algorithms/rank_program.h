// RankProgram: one rank's schedule in the compact form that the simulator runs: no offsets, no strings, no vector per
// step, and peers relative to the rank, so that ranks that do the same can share one.
//
// Immutable after construction; any thread may read it.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/schedule.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::comm {

struct RankProgram {
  struct CompactStep {
    std::uint64_t bytes = 0;
    std::uint32_t lane = 0;       // sends and receives only, as the next
    std::uint32_t ordinal = 0;    // the k-th message of its lane
    std::uint32_t waits_for = 0;  // length of `after`
    Step::Kind kind = Step::Kind::Send;
  };

  /// All messages in one direction between the rank and the peer `distance` ranks further on (mod world size).
  struct Lane {
    bool is_send = false;
    int distance = 0;
    std::vector<std::uint32_t> steps;
  };

  /// Throws InvalidArgument if a peer is not another rank of the world, or `after` names a step that is not earlier.
  RankProgram(const Schedule& schedule, int rank, int world_size, std::size_t element_bytes) {
    const std::size_t size = schedule.steps.size();
    steps.reserve(size);
    first_dependent_.assign(size + 1, 0);
    for (std::size_t i = 0; i < size; ++i) {
      const Step& step = schedule.steps[i];
      CompactStep compact;
      compact.kind = step.kind;
      compact.bytes = (sends(step) ? step.source.count : step.target.count) * element_bytes;
      compact.waits_for = static_cast<std::uint32_t>(step.after.size());
      for (const std::uint32_t earlier : step.after) {
        if (earlier >= i) {
          throw Error(ErrorCode::InvalidArgument, describe(rank, i, step) + " waits for step " +
                                                      std::to_string(earlier) + ", which is not earlier");
        }
        ++first_dependent_[earlier + 1];
      }
      steps.push_back(compact);
      if (!sends(step) && !receives(step)) continue;
      if (step.peer < 0 || step.peer >= world_size || step.peer == rank) {
        throw Error(ErrorCode::InvalidArgument, describe(rank, i, step) + ": the peer is not another rank of 0 .. " +
                                                    std::to_string(world_size - 1));
      }
      add_message(step, steps.back(), (step.peer - rank + world_size) % world_size);
    }
    std::partial_sum(first_dependent_.begin(), first_dependent_.end(), first_dependent_.begin());
    dependents_.resize(first_dependent_.back());
    std::vector<std::uint32_t> next(first_dependent_.begin(), first_dependent_.end() - 1);
    for (std::uint32_t i = 0; i < size; ++i) {
      for (const std::uint32_t earlier : schedule.steps[i].after) dependents_[next[earlier]++] = i;
    }
  }

  /// The steps that wait for `step`.
  std::span<const std::uint32_t> dependents(std::uint32_t step) const {
    return std::span(dependents_).subspan(first_dependent_[step], first_dependent_[step + 1] - first_dependent_[step]);
  }

  /// nullptr if there is no such lane.
  const Lane* find_lane(bool is_send, int distance) const {
    const auto entry = lane_of_.find({is_send, distance});
    return entry == lane_of_.end() ? nullptr : &lanes[entry->second];
  }

  std::vector<CompactStep> steps;
  std::vector<Lane> lanes;

 private:
  void add_message(const Step& step, CompactStep& compact, int distance) {
    const auto [entry, is_new] =
        lane_of_.try_emplace({sends(step), distance}, static_cast<std::uint32_t>(lanes.size()));
    if (is_new) lanes.push_back({sends(step), distance, {}});
    Lane& lane = lanes[entry->second];
    compact.lane = entry->second;
    compact.ordinal = static_cast<std::uint32_t>(lane.steps.size());
    lane.steps.push_back(static_cast<std::uint32_t>(steps.size() - 1));
  }

  std::vector<std::uint32_t> first_dependent_;  // per step, and one more
  std::vector<std::uint32_t> dependents_;
  std::map<std::pair<bool, int>, std::uint32_t> lane_of_;
};

}  // namespace tutti::comm
