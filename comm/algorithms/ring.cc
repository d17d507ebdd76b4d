// Ring: each rank talks to its right-hand neighbour only; every link carries data all the time.
//
// Idea, all_reduce: cut the vector into one chunk per rank. Reduce-scatter: chunk c starts at rank c + 1, travels once
// around the ring, and every rank adds its own part as it passes; after p - 1 hops it arrives, finished, at rank c.
// All-gather: the finished chunks travel around once more and are copied.
//
// all_gather is that second half by itself, and reduce_scatter the first; in the v-forms blocks differ in length, and a
// rank whose block is empty still passes on the others'. In reduce_scatter Input is not written, so the sum of a hop is
// built in Scratch, in two places that take turns: one is being sent while the other is being filled. Segment s of
// every block begins at the same place within it, so that segments of different blocks share Scratch only if their s is
// equal.
//
// Nomenclature: p ranks, n elements per rank; right = rank + 1, left = rank - 1 (mod p); hop t = 0 .. p - 2; chunks
// differ by one element at most, may be empty (n < p), and are cut into segments so that receiving, reducing and
// forwarding overlap: a segment is forwarded as soon as it is there, whatever the state of its chunk. Block r has c(r)
// elements, C in all (n each without v), m the longest.
//
// Determinism:    chunk c is ((c+1) + (c+2)) + ... + c, computed once and then copied: equal bits on all ranks. The
//                 order depends on p and c, so the operator must be commutative (up to rounding), and the bits of a
//                 floating point sum depend on p.
// Source:         Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69
//                 (2009).
#include <tutti/comm/algorithms/builder.h>

#include <array>

namespace tutti::comm::algorithms {
namespace {

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
  if (p == 1) return b.finish();
  Fills sent;  // what the finished chunks overwrite
  for (const Range& part : chunk(problem.rank - 1)) sent.add(part, b.send(right, out(part)));
  const int hops = 2 * (p - 1);
  for (int t = 0; t < hops; ++t) {
    for (const Range& part : chunk(problem.rank - 2 - t)) {
      const bool adds = t < p - 1;
      const auto arrived = adds ? b.recv_reduce(left, out(part), true) : b.recv(left, out(part), sent.touching(part));
      if (t < hops - 1) sent.add(part, b.send(right, out(part), {arrived}));
    }
  }
  return b.finish();
}

Schedule ring_all_gather(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int right = wrap(problem.rank + 1, p);
  const int left = wrap(problem.rank - 1, p);
  const auto own = own_parts(problem);
  for (std::size_t s = 0; p > 1 && s < own.size(); ++s) b.send(right, in(own[s]));
  for (int t = 1; t < p; ++t) {
    for (const Range& part : block_parts(problem, wrap(problem.rank - t, p))) {
      const auto arrived = b.recv(left, out(part));
      if (t < p - 1) b.send(right, out(part), {arrived});
    }
  }
  const auto home = block_parts(problem, problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(home[s]), in(own[s]));
  return b.finish();
}

Schedule ring_reduce_scatter(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int hops = p - 1;
  const int right = wrap(problem.rank + 1, p);
  const int left = wrap(problem.rank - 1, p);
  std::size_t longest = 0;
  for (int rank = 0; rank < p; ++rank) longest = std::max(longest, block_of(problem, rank).count);
  /// Where hop t builds its sum of a part of the block that lies at `block`.
  const auto place_of = [&](int t, const Range& block, const Range& part) {
    const Range place{part.offset - block.offset, part.count};
    return t == hops - 1 ? out(place) : scratch({static_cast<std::size_t>(t % 2) * longest + place.offset, part.count});
  };
  for (const Range& part : block_parts(problem, wrap(problem.rank - 1, p)))
    p == 1 ? b.copy(out({part.offset, part.count}), in(part)) : b.send(right, in(part));
  std::array<std::vector<Builder::After>, 2> sent;  // per place and segment: the last send from there
  sent.fill(std::vector<Builder::After>(segments({0, longest}, problem.segment_count).size()));
  for (int t = 0; t < hops; ++t) {
    const Range block = block_of(problem, wrap(problem.rank - 2 - t, p));
    auto& sent_before = sent[static_cast<std::size_t>(t % 2)];
    const auto parts = segments(block, problem.segment_count);
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const Slice sum = place_of(t, block, parts[s]);
      const auto received = b.recv(left, sum, sent_before[s]);
      const auto added = b.reduce(sum, in(parts[s]), false, {received});
      if (t < hops - 1) sent_before[s] = {b.send(right, sum, {added})};
    }
  }
  return b.finish(longest * static_cast<std::size_t>(std::clamp(hops - 1, 0, 2)));
}

}  // namespace tutti::comm::algorithms
