// RankProgram: one rank's schedule in the compact form that the simulator runs: no offsets, no strings, no vector per
// step, and peers relative to the rank, so that ranks that do the same can share one.
//
// Immutable after construction; any thread may read it.
#pragma once

#include <tutti/comm/schedule/schedule.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
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
  RankProgram(const Schedule& schedule, int rank, int world_size, std::size_t element_bytes);

  /// The steps that wait for `step`.
  std::span<const std::uint32_t> dependents(std::uint32_t step) const {
    return std::span(dependents_).subspan(first_dependent_[step], first_dependent_[step + 1] - first_dependent_[step]);
  }

  /// nullptr if there is no such lane.
  const Lane* find_lane(bool is_send, int distance) const;

  std::vector<CompactStep> steps;
  std::vector<Lane> lanes;

 private:
  void add_message(const Step& step, CompactStep& compact, int distance);

  std::vector<std::uint32_t> first_dependent_;  // per step, and one more
  std::vector<std::uint32_t> dependents_;
  std::map<std::pair<bool, int>, std::uint32_t> lane_of_;
};

}  // namespace tutti::comm
