// Pairwise: all_to_all and all_to_all_v by an exchange with each other rank in turn.
//
// Idea: every block travels once, straight from Input to Output. In turn t every rank sends to the rank t further on
// and receives from the rank t before, so that no rank is sent to by two in the same turn. Turns are not kept apart by
// waiting: receives are open from the start, and a send waits only for the one kInFlight turns before it, which bounds
// how many connections are busy at a time.
//
// In the v-form every pair exchanges exactly one message in each direction, an empty one if there is nothing to send,
// and in one piece: its length is how the receiver learns whether both agree on it, since no rank knows all counts.
//
// Nomenclature: p ranks, n elements per pair of ranks (Input and Output hold p blocks of n); turn t = 1 .. p - 1.
//
// Determinism:    nothing is computed.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005), section 4.3. https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

constexpr std::size_t kInFlight = 4;

/// What goes to or comes from `peer`, message by message.
std::vector<Range> pieces(const Problem& problem, int peer, Range (*v_block)(const Problem&, int)) {
  if (problem.op == OpKind::AllToAllV) return {v_block(problem, peer)};
  return block_parts(problem, peer);
}

}  // namespace

Schedule pairwise_all_to_all(const Problem& problem) {
  Builder b("pairwise");
  const int p = problem.world_size;
  std::vector<Builder::Index> last_sends;  // of each turn
  for (int turn = 1; turn < p; ++turn) {
    const int to = (problem.rank + turn) % p;
    const int from = (problem.rank - turn + p) % p;
    Builder::After window;
    if (last_sends.size() >= kInFlight) window = {last_sends[last_sends.size() - kInFlight]};
    Builder::Index last = 0;
    for (const Range& part : pieces(problem, to, sent_block)) last = b.send(to, in(part), window);
    last_sends.push_back(last);
    for (const Range& part : pieces(problem, from, received_block)) b.recv(from, out(part));
  }
  const auto mine = pieces(problem, problem.rank, sent_block), home = pieces(problem, problem.rank, received_block);
  for (std::size_t s = 0; s < mine.size(); ++s) {
    if (mine[s].count > 0) b.copy(out(home[s]), in(mine[s]));
  }
  return b.finish();
}

}  // namespace tutti::comm::algorithms
