// Pairwise all_to_all_v: the pairwise all_to_all (pairwise.cc) with a length of its own for each pair of ranks.
//
// Idea: as there. Every pair exchanges exactly one message in each direction, an empty one if there is nothing to send,
// and in one piece: its length is how the receiver learns whether both agree on it, since no rank knows all counts.
//
// Nomenclature: p ranks; s(i, j) elements from rank i to rank j; turn t = 1 .. p - 1.
//
// Steps:          p - 1 turns, which overlap
// Bytes sent:     what the caller gives: the least possible, and p - 1 headers
// Memory:         none
// Determinism:    nothing is computed.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005), section 4.3. https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

constexpr std::size_t kSendsAtOnce = 4;

/// Block `peer` of blocks whose lengths are `count_of(0)`, `count_of(1)`, ...
template <typename CountOf>
Block block_among(const Problem& problem, int peer, const CountOf& count_of) {
  Block block;
  for (int before = 0; before < peer; ++before) block.offset += count_of(static_cast<std::size_t>(before));
  if (peer < problem.world_size) block.count = count_of(static_cast<std::size_t>(peer));
  return block;
}

Range range_of(const Block& block) { return {block.offset, block.count}; }

}  // namespace

Block sent_block(const Problem& problem, int peer) {
  const std::size_t row = problem.recv_counts.empty()
                              ? static_cast<std::size_t>(problem.rank) * static_cast<std::size_t>(problem.world_size)
                              : 0;
  return block_among(problem, peer, [&](std::size_t to) { return problem.counts[row + to]; });
}

Block received_block(const Problem& problem, int peer) {
  const auto p = static_cast<std::size_t>(problem.world_size), self = static_cast<std::size_t>(problem.rank);
  return block_among(problem, peer, [&](std::size_t from) {
    return problem.recv_counts.empty() ? problem.counts[from * p + self] : problem.recv_counts[from];
  });
}

Schedule pairwise_all_to_all_v(const Problem& problem) {
  Builder b("pairwise");
  const int p = problem.world_size;
  std::vector<Builder::Index> sends;  // of each turn
  for (int turn = 1; turn < p; ++turn) {
    const int to = (problem.rank + turn) % p;
    const int from = (problem.rank - turn + p) % p;
    Builder::After window;
    if (sends.size() >= kSendsAtOnce) window = {sends[sends.size() - kSendsAtOnce]};
    sends.push_back(b.send(to, in(range_of(sent_block(problem, to))), window));
    b.recv(from, out(range_of(received_block(problem, from))));
  }
  const Range own = range_of(sent_block(problem, problem.rank));
  if (own.count > 0) b.copy(out(range_of(received_block(problem, problem.rank))), in(own));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
