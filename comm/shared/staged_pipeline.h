// run_staged: a long operation of ranks that share memory, as a pipeline of chunks over their stages.
//
// stage(k, number) fills this rank's stage with its part of chunk k, where `stages` says that it has one, and
// use(k, number) reads the others', for which it awaits `staged` of stage `number`. While a chunk is used the next one
// is staged. Blocks and throws as Board::await. Thread-safety: one thread at a time, which is the board's.
#pragma once

#include <tutti/comm/shared/board.h>

#include <cstddef>
#include <cstdint>

namespace tutti::comm {

template <typename Stage, typename Use>
void run_staged(Board& board, std::size_t chunks, bool stages, Stage stage, Use use) {
  const std::uint64_t base = board.stages_done();
  const auto fill = [&](std::size_t k) {
    if (!stages) return;
    const std::uint64_t number = base + k + 1;
    if (number > kStages)
      for (int index = 0; index < board.ranks(); ++index)
        if (index != board.self()) board.await(&RankState::taken, index, number - kStages);
    stage(k, base + k);
    board.advance(&RankState::staged, number);
  };
  fill(0);
  for (std::size_t k = 0; k < chunks; ++k) {
    if (k + 1 < chunks) fill(k + 1);
    use(k, base + k);
    board.advance(&RankState::taken, base + k + 1);
  }
  board.finish_stages(chunks);
}

}  // namespace tutti::comm
