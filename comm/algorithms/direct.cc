// Direct (flat), also called linear: gather, scatter and reduce_scatter, and their v-forms, by one message from where a
// block is to where it belongs.
//
// Idea: no rank passes on what is not its own, and no message waits for another. One latency from end to end instead of
// lg p, and no memory, but p - 1 messages one after the other: for few ranks, for long blocks, most of which a tree
// would move more than once, and for blocks of different lengths. reduce_scatter adds what comes in the order of the
// ranks.
//
// Nomenclature: p ranks; block r has c(r) elements, C in all (n each without v).
//
// Determinism:    reduce_scatter: every block is ((0 + 1) + 2) + ... + (p - 1): the operator need be associative only.
//                 The bits of a floating point sum depend on p.
// Source:         Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//                 experience. CCPE 19 (2007). https://doi.org/10.1002/cpe.1206; reduce_scatter: "spread-out" in Thakur,
//                 Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19 (2005).
#include <tutti/comm/algorithms/tree.h>

namespace tutti::comm::algorithms {
namespace {

std::string_view name_for(OpKind op) { return has_counts(op) ? "linear" : "direct"; }

}  // namespace

Schedule direct_gather(const Problem& problem) {
  return pass_blocks(flat_tree(problem, problem.root), problem, name_for(problem.op), true);
}
Schedule direct_scatter(const Problem& problem) {
  return pass_blocks(flat_tree(problem, problem.root), problem, name_for(problem.op), false);
}

Schedule direct_reduce_scatter(const Problem& problem) {
  Builder b("direct");
  for (int i = 1; i < problem.world_size; ++i) {  // not all to rank 0 first
    const int peer = (problem.rank + i) % problem.world_size;
    for (const Range& part : block_parts(problem, peer)) b.send(peer, in(part));
  }
  const auto own = own_parts(problem), home = block_parts(problem, problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) fold_from_left(b, problem, out(own[s]), in(home[s]), {});
  return b.finish();
}

}  // namespace tutti::comm::algorithms
