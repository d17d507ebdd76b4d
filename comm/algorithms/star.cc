// Star: all_reduce, all_gather, reduce_scatter and barrier in which all ranks talk to rank 0 only.
//
// Idea: rank 0 hears all others in the order of the ranks, and answers them. That is 2(p - 1) messages in all, and each
// other rank has to be run once only, from when it gets the answer to when it has sent its part of the next operation:
// what counts for short messages where many ranks share few CPUs.
//
// Nomenclature: p ranks, n elements per rank (all_gather, reduce_scatter: per block, of which there are p).
//
// Determinism:    every element is ((0 + 1) + 2) + ... + (p - 1): the operator need be associative only, and the bits
//                 depend on nothing but the ranks' inputs.
// Source:         folklore; linear reduce (gather), then broadcast (scatter): Chan, Heimlich, Purkayastha, van de
//                 Geijn: Collective communication: theory, practice, and experience. CCPE 19 (2007).
//                 https://doi.org/10.1002/cpe.1206
#include <tutti/comm/algorithms/tree.h>

namespace tutti::comm::algorithms {

Schedule star_all_reduce(const Problem& problem) { return all_reduce_along({flat_tree(problem, 0)}, problem, "star"); }

Schedule star_all_gather(const Problem& problem) {
  Builder b("star");
  Builder::After sent;  // Input may be a part of Output
  if (problem.rank != 0) {
    for (const Range& part : block_parts(problem, 0)) sent = {b.send(0, in(part), sent)};
    for (const Range& part : block_parts(problem, 0, problem.world_size)) b.recv(0, out(part), sent);
    return b.finish();
  }
  Builder::After there;
  for (const Range& part : block_parts(problem, 0)) there = {b.copy(out(part), in(part), there)};
  for (int peer = 1; peer < problem.world_size; ++peer) {
    for (const Range& part : block_parts(problem, peer)) there = {b.recv(peer, out(part), there)};
  }
  for (const Range& part : block_parts(problem, 0, problem.world_size)) {
    for (int peer = 1; peer < problem.world_size; ++peer) b.send(peer, out(part), there);
  }
  return b.finish();
}

Schedule star_reduce_scatter(const Problem& problem) {
  Builder b("star");
  Builder::After done;
  if (problem.rank != 0) {
    for (const Range& part : block_parts(problem, 0, problem.world_size)) done = {b.send(0, in(part), done)};
    for (const Range& part : block_parts(problem, 0)) b.recv(0, out(part), done);  // Output may be a part of Input
    return b.finish();
  }
  for (const Range& part : block_parts(problem, 0, problem.world_size))
    done = fold_from_left(b, problem, scratch(part), in(part), done);
  for (int peer = 1; peer < problem.world_size; ++peer) {
    for (const Range& part : block_parts(problem, peer)) b.send(peer, scratch(part), done);
  }
  for (const Range& part : block_parts(problem, 0)) b.copy(out(part), scratch(part), done);
  return b.finish(static_cast<std::size_t>(problem.world_size) * problem.count);
}

Schedule star_barrier(const Problem& problem) {
  Builder b("star");
  if (problem.rank != 0) {
    b.recv(0, out({}), {b.send(0, out({}))});
    return b.finish();
  }
  Builder::After heard;
  for (int peer = 1; peer < problem.world_size; ++peer) heard = {b.recv(peer, out({}), heard)};
  for (int peer = 1; peer < problem.world_size; ++peer) b.send(peer, out({}), heard);
  return b.finish();
}

}  // namespace tutti::comm::algorithms
