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

Range range_of(const BlockRange& block) { return {block.offset, block.count}; }

}  // namespace

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
