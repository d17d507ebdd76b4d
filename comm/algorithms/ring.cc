// Ring: each rank talks to its right-hand neighbour only; every link carries data all the time.
//
// Idea, all_reduce: cut the vector into one chunk per rank. Reduce-scatter: chunk c starts at rank c + 1, travels once
// around the ring, and every rank adds its own part as it passes; after p - 1 hops it arrives, finished, at rank c.
// All-gather: the finished chunks travel around once more and are copied. The all_gather operation is that second half.
//
// Nomenclature: p ranks, n elements per rank; right = rank + 1, left = rank - 1 (mod p); hop t = 0 .. p - 2; chunks
// differ by one element at most, may be empty (n < p), and are cut into segments so that receiving, reducing and
// forwarding overlap: a segment is forwarded as soon as it is there, whatever the state of its chunk.
//
// Steps:          all_reduce 2(p - 1) hops                   all_gather p - 1 hops
// Bytes sent:     all_reduce 2n(p - 1)/p elements a rank     all_gather n(p - 1): both the least possible
// Memory:         none beyond the caller's buffers
// Determinism:    chunk c is ((c+1) + (c+2)) + ... + c, computed once and then copied: equal bits on all ranks. The
//                 order depends on p and c, so the operator must be commutative (up to rounding), and the bits of a
//                 floating point sum depend on p.
// Source:         Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69
//                 (2009).
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

using Index = Builder::Index;

int wrap(int rank, int world_size) { return ((rank % world_size) + world_size) % world_size; }

}  // namespace

Schedule ring_all_reduce(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int right = wrap(problem.rank + 1, p);
  const int left = wrap(problem.rank - 1, p);
  const auto chunk = [&](int index) {
    return segments(chunk_of(problem.count, p, wrap(index, p)), problem.segment_count);
  };
  std::vector<std::vector<Index>> sent;  // [t]: the sends of reduce-scatter hop t, one a segment
  std::vector<Index> arrived;            // the receives of the last hop: what the next hop forwards

  for (int t = 0; t < p - 1; ++t) {
    const auto outgoing = chunk(problem.rank - 1 - t);
    const auto incoming = chunk(problem.rank - 2 - t);
    std::vector<Index> sends, receives;
    for (std::size_t s = 0; s < std::max(outgoing.size(), incoming.size()); ++s) {
      if (s < outgoing.size()) {
        sends.push_back(b.send(right, out(outgoing[s]), t == 0 ? Builder::After{} : Builder::After{arrived[s]}));
      }
      if (s < incoming.size()) receives.push_back(b.recv_reduce(left, out(incoming[s]), true));
    }
    sent.push_back(std::move(sends));
    arrived = std::move(receives);
  }
  for (int t = 0; t < p - 1; ++t) {
    const auto outgoing = chunk(problem.rank - t);
    const auto incoming = chunk(problem.rank - 1 - t);  // the chunk that reduce-scatter hop t sent away
    std::vector<Index> receives;
    for (std::size_t s = 0; s < std::max(outgoing.size(), incoming.size()); ++s) {
      if (s < outgoing.size()) b.send(right, out(outgoing[s]), {arrived[s]});
      if (s < incoming.size()) {
        receives.push_back(b.recv(left, out(incoming[s]), {sent[static_cast<std::size_t>(t)][s]}));
      }
    }
    arrived = std::move(receives);
  }
  return b.finish();
}

Schedule ring_all_gather(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int right = wrap(problem.rank + 1, p);
  const int left = wrap(problem.rank - 1, p);
  const auto block = [&](int rank) {
    return segments({static_cast<std::size_t>(wrap(rank, p)) * problem.count, problem.count}, problem.segment_count);
  };
  const auto own = segments({0, problem.count}, problem.segment_count);

  std::vector<Index> arrived;
  for (int t = 0; t < p - 1; ++t) {
    const auto outgoing = block(problem.rank - t);
    const auto incoming = block(problem.rank - 1 - t);
    std::vector<Index> receives;
    for (std::size_t s = 0; s < own.size(); ++s) {
      if (t == 0) {
        b.send(right, in(own[s]));
      } else {
        b.send(right, out(outgoing[s]), {arrived[s]});
      }
      receives.push_back(b.recv(left, out(incoming[s])));
    }
    arrived = std::move(receives);
  }
  const auto home = block(problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(home[s]), in(own[s]));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
