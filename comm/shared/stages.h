// Stages: what ranks that share memory copy for each other in a long operation, and how far each of them is;
// run_staged: such an operation as a pipeline of chunks.
//
// stage(chunk) fills this rank's stage with its part of a chunk, where `stages` says that it has one, and use(chunk)
// reads the others', for which it awaits `staged` of chunk.end, and may write to them where no other rank reads before
// it is told. While a chunk is used the next one is staged. All of a stage is used before any of it is used again: what
// was read long ago has left its reader's caches, and is faster to overwrite. Blocks and throws as
// Announcements::await. Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/shared/announcements.h>
#include <tutti/comm/transport/shm/neighbours.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::comm {

inline constexpr std::size_t kChunkBytes = 256 * 1024;      // the most that one chunk takes of a stage
inline constexpr std::size_t kLeastPieceBytes = 16 * 1024;  // shorter ones gain nothing
// A chunk is staged before the one before it is used, and may leave nearly as much room as it takes unused at the end.
static_assert(kStageBytes >= 3 * kChunkBytes);

/// A position counts bytes since the group was formed, and is equal on all ranks between operations.
class Stages {
 public:
  /// `announcements` is of the same ranks, and waits.
  Stages(Neighbours& neighbours, Announcements& announcements)
      : neighbours_(neighbours), segment_(neighbours.segment()), announcements_(announcements) {}

  int ranks() const { return neighbours_.size(); }
  int self() const { return neighbours_.self(); }
  std::uint64_t position() const { return position_; }
  std::byte* at(int index, std::uint64_t position) const { return segment_.stage(index, position); }

  using Progress = std::atomic<std::uint64_t> RankState::*;
  /// Publishes this rank's progress.
  void advance(Progress progress, std::uint64_t to) {
    (segment_.state(self()).*progress).store(to, std::memory_order_release);
    neighbours_.nudge_all();
  }
  /// Waits until a rank's progress has come to `at_least`.
  void await(Progress progress, int index, std::uint64_t at_least) {
    const auto& theirs = segment_.state(index).*progress;
    announcements_.await_ready([&] { return theirs.load(std::memory_order_acquire) >= at_least; }, index);
  }
  void await_all(Progress progress, std::uint64_t at_least) {
    for (int index = 0; index < ranks(); ++index)
      if (index != self()) await(progress, index, at_least);
  }
  /// The operation came to this position: sets all of this rank's progress to it.
  void finish(std::uint64_t position) {
    position_ = position;
    for (const Progress progress : {&RankState::staged, &RankState::reduced, &RankState::taken})
      (segment_.state(self()).*progress).store(position_, std::memory_order_release);
    neighbours_.nudge_all();
  }

  /// Publishes this rank's progress of a step in which nothing lies on stages, and may wait for that of the others.
  void meet(Progress progress, bool awaits) {
    const std::uint64_t done = position_ + kLine;
    advance(progress, done);
    if (awaits) await_all(progress, done);
    finish(done);
  }

 private:
  Neighbours& neighbours_;
  const HostSegment& segment_;
  Announcements& announcements_;
  std::uint64_t position_ = 0;
};

struct Chunk {
  std::size_t first;    // of the operation's bytes
  std::size_t length;   // the same on all ranks
  std::uint64_t begin;  // where it lies on the stages
  std::uint64_t end;
};

/// What is cut into chunks: `bytes`, of which `rows` parts of the same length lie side by side on a stage. At least
/// into some `pieces` where ranks that wait for the first one have nothing to stage meanwhile.
struct Staged {
  std::size_t bytes;
  std::size_t rows = 1;
  std::size_t pieces = 1;

  std::size_t most() const {  // of a row, in one chunk
    const std::size_t room = std::max(kLine, kChunkBytes / rows / kLine * kLine);
    return std::min(room, std::max(kLeastPieceBytes, row_bytes(bytes / pieces)));
  }
  static std::size_t row_bytes(std::size_t length) { return (length + kLine - 1) / kLine * kLine; }

  /// The chunk that starts with byte `first`, on the stages behind `position`.
  Chunk chunk(std::size_t first, std::uint64_t position) const {
    const std::size_t length = std::min(most(), bytes - first);
    const std::size_t needed = rows * row_bytes(length);
    const std::size_t left = kStageBytes - position % kStageBytes;
    const std::uint64_t begin = needed <= left ? position : position + left;
    return {first, length, begin, begin + needed};
  }
};

template <typename Stage, typename Use>
void run_staged(Stages& all, const Staged& staged, bool stages, Stage stage, Use use) {
  const auto fill = [&](const Chunk& chunk) {
    if (!stages) return;
    if (chunk.end > kStageBytes) all.await_all(&RankState::taken, chunk.end - kStageBytes);
    stage(chunk);
    all.advance(&RankState::staged, chunk.end);
  };
  Chunk chunk = staged.chunk(0, all.position());
  fill(chunk);
  for (bool more = true; more;) {
    const Chunk now = chunk;
    more = now.first + now.length < staged.bytes;
    if (more) fill(chunk = staged.chunk(now.first + now.length, now.end));
    use(now);
    all.advance(&RankState::taken, now.end);
  }
  all.finish(chunk.end);
}

}  // namespace tutti::comm
