// Recursive doubling: all_reduce. In round k every rank exchanges all it has with the rank 2^k away; what it has
// doubles each time.
//
// Idea: few rounds, whole vectors. Best where latency counts, that is for small vectors.
//
// Nomenclature: p ranks, n elements per rank, q = the largest power of two that is <= p, e = p - q extra ranks.
//   fold() (hosts.h): of the first 2e ranks the even ones hand their vector to the odd neighbour, and are given the
//   result. The q ranks left are numbered 0 .. q - 1 (id) in rank order and exchange with id ^ 1, id ^ 2, id ^ 4 ...
//
// Why slots: a segment is added while the caches still hold it. In one Scratch[n] 16 MiB of 2 ranks over TCP took 8.4
// ms on two CPUs of an AMD EPYC, in two slots 6.5 to 7.3; of 4 ranks 37 and 30 ms.
//
// Why exchange into Scratch: were the incoming vector reduced into the vector that is being sent, each side would wait
// for its own send before it receives, and two messages too large for the transport's buffers would wait for each
// other.
//
// Determinism:    id holds the reduction of an unbroken range of ranks, and partners both compute lower (+) higher, so
//                 the operator need be associative only, and all ranks hold equal bits. The bits of a floating point
//                 sum depend on p.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005), sections 4.1 and 4.5. https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/builder.h>
#include <tutti/comm/algorithms/hosts.h>

#include <bit>

namespace tutti::comm::algorithms {

Schedule recursive_doubling_all_reduce(const Problem& problem) {
  if (!std::has_single_bit(static_cast<unsigned>(problem.world_size)))
    return fold("recursive_doubling", problem, recursive_doubling_all_reduce);
  constexpr std::size_t kSlots = 2;  // one is received into while the other is added
  Builder b("recursive_doubling");
  const auto parts = segments({0, problem.count}, problem.segment_count);
  std::vector<Builder::After> written(parts.size());  // last step that wrote the part of Output
  const std::size_t slots = std::min(parts.size(), kSlots);
  std::size_t scratch_count = 0;
  for (int distance = 1; distance < problem.world_size; distance *= 2) {
    const int partner = problem.rank ^ distance;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const auto sent = b.send(partner, out(parts[s]), written[s]);
      const Slice incoming = scratch({scratch_count + parts[s % slots].offset, parts[s].count});
      const auto received = b.recv(partner, incoming, s < slots ? Builder::After{} : written[s - slots]);
      const bool partner_is_lower = partner < problem.rank;
      written[s] = {b.reduce(out(parts[s]), incoming, partner_is_lower, {sent, received})};
    }
    if (slots > 0) scratch_count += slots * parts.front().count;
  }
  return b.finish(scratch_count);
}

}  // namespace tutti::comm::algorithms
