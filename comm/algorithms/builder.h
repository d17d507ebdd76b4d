// Builder: the words in which the algorithms are written. Internal to comm/algorithms.
//
// Each call appends one step and returns its index, to be named in a later step's `after`.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::comm::algorithms {

inline Slice in(Range range) { return {BufferId::Input, range.offset, range.count}; }
inline Slice out(Range range) { return {BufferId::Output, range.offset, range.count}; }
inline Slice scratch(Range range) { return {BufferId::Scratch, range.offset, range.count}; }

/// Part `index` of `count` elements cut into `parts` parts whose sizes differ by at most one, longer ones first. Parts
/// are empty where count < parts.
inline Range chunk_of(std::size_t count, int parts, int index) {
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t rest = count % n;
  return {count / n * i + std::min(i, rest), count / n + (i < rest ? 1 : 0)};
}

/// `range` cut into pieces of at most `segment_count` elements (0 = no limit); none if it is empty. Both ends of a
/// message cut it alike because its length is all that counts.
inline std::vector<Range> segments(Range range, std::size_t segment_count) {
  std::vector<Range> result;
  const std::size_t step = segment_count == 0 ? range.count : segment_count;
  for (std::size_t done = 0; done < range.count; done += step) {
    result.push_back({range.offset + done, std::min(step, range.count - done)});
  }
  return result;
}

/// The blocks of ranks in a row, of one as a rule, in segments: where they lie among all ranks' blocks.
inline std::vector<Range> block_parts(const Problem& problem, int first, int number = 1) {
  const std::size_t begin = block_of(problem, first).offset;
  return segments({begin, block_of(problem, first + number).offset - begin}, problem.segment_count);
}
/// This rank's block where it is the only one.
inline std::vector<Range> own_parts(const Problem& problem) {
  return segments({0, block_of(problem, problem.rank).count}, problem.segment_count);
}

class Builder {
 public:
  using Index = std::uint32_t;
  using After = std::vector<Index>;

  explicit Builder(std::string_view algorithm) { schedule_.algorithm = algorithm; }

  Index send(int peer, Slice source, After after = {}) {
    return add({Step::Kind::Send, peer, source, {}, false, std::move(after)});
  }
  Index recv(int peer, Slice target, After after = {}) {
    return add({Step::Kind::Recv, peer, {}, target, false, std::move(after)});
  }
  /// target = target (+) incoming, or incoming (+) target if `incoming_first`.
  Index recv_reduce(int peer, Slice target, bool incoming_first, After after = {}) {
    return add({Step::Kind::RecvReduce, peer, {}, target, incoming_first, std::move(after)});
  }
  Index copy(Slice target, Slice source, After after = {}) {
    return add({Step::Kind::Copy, -1, source, target, false, std::move(after)});
  }
  /// target = target (+) source, or source (+) target if `source_first`.
  Index reduce(Slice target, Slice source, bool source_first, After after = {}) {
    return add({Step::Kind::Reduce, -1, source, target, source_first, std::move(after)});
  }

  /// Any step, as it is.
  Index add(Step step) {
    schedule_.steps.push_back(std::move(step));
    return static_cast<Index>(schedule_.steps.size() - 1);
  }

  Schedule finish(std::size_t scratch_count = 0) {
    schedule_.scratch_count = scratch_count;
    return std::move(schedule_);
  }

 private:
  Schedule schedule_;
};

/// sum = ((0 + 1) + 2) + ... in the order of the ranks, of which this one's part is `mine` and the others send theirs,
/// from when `done` is done. Returns the last step.
inline Builder::After fold_from_left(Builder& b, const Problem& problem, Slice sum, Slice mine, Builder::After done) {
  for (int rank = 0; rank < problem.world_size; ++rank) {
    if (rank == problem.rank) {
      done = {rank == 0 ? b.copy(sum, mine, done) : b.reduce(sum, mine, false, done)};
    } else {
      done = {rank == 0 ? b.recv(rank, sum, done) : b.recv_reduce(rank, sum, false, done)};
    }
  }
  return done;
}

/// Remembers which step fills which elements of one buffer, so that a message can wait for exactly what it carries.
class Fills {
 public:
  void add(Range range, Builder::Index step) { fills_.push_back({range, step}); }

  Builder::After touching(Range range) const {
    Builder::After result;
    for (const auto& [filled, step] : fills_) {
      if (filled.offset < range.offset + range.count && range.offset < filled.offset + filled.count) {
        result.push_back(step);
      }
    }
    return result;
  }

 private:
  std::vector<std::pair<Range, Builder::Index>> fills_;
};

}  // namespace tutti::comm::algorithms
