// Pairwise: all_to_all by an exchange with each other rank in turn.
//
// Idea: every block travels once, straight from Input to Output. In turn t every rank sends to the rank t further on
// and receives from the rank t before, so that nobody is sent to by two in the same turn. Turns are not kept apart by
// waiting: receives are open from the start, and a send waits only for the one kInFlight turns before it, which bounds
// how many connections are busy at a time.
//
// Nomenclature: p ranks, n elements per pair of ranks (Input and Output hold p blocks of n); turn t = 1 .. p - 1.
//
// Steps:          p - 1 turns, which overlap
// Bytes sent:     n(p - 1) elements a rank: the least possible
// Memory:         none
// Determinism:    nothing is computed.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005), section 4.3. https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

constexpr std::size_t kInFlight = 4;

}  // namespace

Schedule pairwise_all_to_all(const Problem& problem) {
  Builder b("pairwise");
  const int p = problem.world_size;
  const auto block = [&](int rank) {
    return segments({static_cast<std::size_t>(rank) * problem.count, problem.count}, problem.segment_count);
  };
  std::vector<Builder::Index> last_sends;  // of each turn
  for (int turn = 1; turn < p; ++turn) {
    const int to = (problem.rank + turn) % p;
    const int from = (problem.rank - turn + p) % p;
    Builder::After window;
    if (last_sends.size() >= kInFlight) window = {last_sends[last_sends.size() - kInFlight]};
    Builder::Index last = 0;
    for (const Range& part : block(to)) last = b.send(to, in(part), window);
    last_sends.push_back(last);
    for (const Range& part : block(from)) b.recv(from, out(part));
  }
  for (const Range& part : block(problem.rank)) b.copy(out(part), in(part));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
