// run_staged: a long operation of ranks that share memory, as a pipeline of chunks over their stages.
//
// stage(chunk) fills this rank's stage with its part of a chunk, where `stages` says that it has one, and use(chunk)
// reads the others', for which it awaits `staged` of chunk.end, and may write to them where no other rank reads before
// it is told. While a chunk is used the next one is staged. All of a stage is used before any of it is used again: what
// was read long ago has left its reader's caches, and is faster to overwrite. Blocks and throws as Board::await.
// Thread-safety: one thread at a time, which is the board's.
#pragma once

#include <tutti/comm/shared/board.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::comm {

inline constexpr std::size_t kChunkBytes = 256 * 1024;      // the most that one chunk takes of a stage
inline constexpr std::size_t kLeastPieceBytes = 16 * 1024;  // shorter ones gain nothing
// A chunk is staged before the one before it is used, and may leave nearly as much room as it takes unused at the end.
static_assert(kStageBytes >= 3 * kChunkBytes);

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
void run_staged(Board& board, const Staged& staged, bool stages, Stage stage, Use use) {
  const auto fill = [&](const Chunk& chunk) {
    if (!stages) return;
    for (int index = 0; index < board.ranks() && chunk.end > kStageBytes; ++index)
      if (index != board.self()) board.await(&RankState::taken, index, chunk.end - kStageBytes);
    stage(chunk);
    board.advance(&RankState::staged, chunk.end);
  };
  Chunk chunk = staged.chunk(0, board.position());
  fill(chunk);
  for (bool more = true; more;) {
    const Chunk now = chunk;
    more = now.first + now.length < staged.bytes;
    if (more) fill(chunk = staged.chunk(now.first + now.length, now.end));
    use(now);
    board.advance(&RankState::taken, now.end);
  }
  board.finish_stages(chunk.end);
}

}  // namespace tutti::comm
