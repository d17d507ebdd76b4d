#include <tutti/comm/schedule/problem.h>

namespace tutti::comm {
namespace {

/// Block `peer` of blocks whose lengths are `count_of(0)`, `count_of(1)`, ...
template <typename CountOf>
Range block_among(const Problem& problem, int peer, const CountOf& count_of) {
  Range block;
  for (int before = 0; before < peer; ++before) block.offset += count_of(static_cast<std::size_t>(before));
  if (peer < problem.world_size) block.count = count_of(static_cast<std::size_t>(peer));
  return block;
}

}  // namespace

Range block_of(const Problem& problem, int rank) {
  if (has_counts(problem.op)) return block_among(problem, rank, [&](std::size_t i) { return problem.counts[i]; });
  return {static_cast<std::size_t>(rank) * problem.count, rank < problem.world_size ? problem.count : 0};
}

Range sent_block(const Problem& problem, int peer) {
  const std::size_t row = problem.recv_counts.empty()
                              ? static_cast<std::size_t>(problem.rank) * static_cast<std::size_t>(problem.world_size)
                              : 0;
  return block_among(problem, peer, [&](std::size_t to) { return problem.counts[row + to]; });
}

Range received_block(const Problem& problem, int peer) {
  const auto p = static_cast<std::size_t>(problem.world_size), self = static_cast<std::size_t>(problem.rank);
  return block_among(problem, peer, [&](std::size_t from) {
    return problem.recv_counts.empty() ? problem.counts[from * p + self] : problem.recv_counts[from];
  });
}

}  // namespace tutti::comm
