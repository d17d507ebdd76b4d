// Bruck: all_gather, reduce_scatter and all_to_all in the fewest rounds for any number of ranks.
//
// Idea, all_gather: as in recursive doubling what a rank has doubles each round, but around a ring: rank r holds blocks
// r, r + 1, ..., r + d - 1 (mod p) and fetches the next d from rank r + d, which has just those. The last round fetches
// what is missing. Blocks are kept in Scratch in that order, so that every message is one piece, and put in place at
// the end.
//
// reduce_scatter is all_gather backwards: Scratch block j is what rank r knows of the sum for rank r + j. The last d of
// 2d blocks go to rank r + d, which adds them to its first ones, for d from the largest power of two below p down to 1.
//
// all_to_all, for many ranks and tiny blocks: number a rank's blocks by how far they have to go: block j is for the
// rank j further on. In round k all blocks whose j has bit k set travel 2^k ranks further, in one message; written in
// binary, j says which rounds they take part in, and after ceil(lg p) rounds all have arrived. Block j that has arrived
// at rank r comes from rank r - j. Blocks are packed in Scratch, and stay there where they were received until they
// travel again or go to Output.
//
// Nomenclature: p ranks, n elements per rank, or pair of ranks; d = 1, 2, 4, ...; all_gather's Scratch block j belongs
// to rank (r + j) mod p; m <= p/2 blocks travel in a round of all_to_all.
//
// Determinism:    reduce_scatter adds in an order that is not the ranks': the operator must be commutative (up to
//                 rounding). The bits of a floating point sum depend on p. The others compute nothing.
// Source:         Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport
//                 message-passing systems. IEEE TPDS 8 (1997). https://doi.org/10.1109/71.642949
#include <tutti/comm/algorithms/builder.h>

#include <bit>

namespace tutti::comm::algorithms {
namespace {

/// Where a block lies: its first element.
struct Place {
  BufferId buffer = BufferId::Input;
  std::size_t offset = 0;
};

}  // namespace

Schedule bruck_all_gather(const Problem& problem) {
  Builder b("bruck");
  const int p = problem.world_size;
  const int rank = problem.rank;
  Fills fills;
  for (const Range& part : block_parts(problem, 0)) fills.add(part, b.copy(scratch(part), in(part)));
  for (int distance = 1; distance < p; distance *= 2) {
    const int number = std::min(distance, p - distance);
    for (const Range& part : block_parts(problem, 0, number))
      b.send((rank - distance + p) % p, scratch(part), fills.touching(part));
    for (const Range& part : block_parts(problem, distance, number))
      fills.add(part, b.recv((rank + distance) % p, scratch(part)));
  }
  for (int j = 0; j < p; ++j) {
    const auto home = block_parts(problem, (rank + j) % p), from = block_parts(problem, j);
    for (std::size_t s = 0; s < home.size(); ++s) b.copy(out(home[s]), scratch(from[s]), fills.touching(from[s]));
  }
  return b.finish(static_cast<std::size_t>(p) * problem.count);
}

Schedule bruck_reduce_scatter(const Problem& problem) {
  Builder b("bruck");
  const int p = problem.world_size;
  const int rank = problem.rank;
  Fills sums;
  for (int j = 0; j < p; ++j) {
    const auto home = block_parts(problem, (rank + j) % p), to = block_parts(problem, j);
    for (std::size_t s = 0; s < home.size(); ++s) sums.add(to[s], b.copy(scratch(to[s]), in(home[s])));
  }
  for (int distance = static_cast<int>(std::bit_floor(static_cast<unsigned>(p - 1))); distance > 0; distance /= 2) {
    const int number = std::min(distance, p - distance);
    for (const Range& part : block_parts(problem, distance, number))
      b.send((rank + distance) % p, scratch(part), sums.touching(part));
    for (const Range& part : block_parts(problem, 0, number))
      sums.add(part, b.recv_reduce((rank - distance + p) % p, scratch(part), false, sums.touching(part)));
  }
  for (const Range& part : block_parts(problem, 0)) b.copy(out(part), scratch(part), sums.touching(part));
  return b.finish(static_cast<std::size_t>(p) * problem.count);
}

Schedule bruck_all_to_all(const Problem& problem) {
  Builder b("bruck");
  const int p = problem.world_size;
  const std::size_t n = problem.count;
  const auto parts = segments({0, n}, problem.segment_count);
  std::size_t scratch_count = 0;
  Fills fills;  // of Scratch

  std::vector<Place> places;
  for (int j = 0; j < p; ++j) places.push_back({BufferId::Input, static_cast<std::size_t>((problem.rank + j) % p) * n});
  const auto copy = [&](Slice target, int j, const Range& part) {
    const auto& [buffer, offset] = places[static_cast<std::size_t>(j)];
    const Range source{offset + part.offset, part.count};
    const bool is_input = buffer == BufferId::Input;
    return b.copy(target, {buffer, source.offset, source.count}, is_input ? Builder::After{} : fills.touching(source));
  };

  for (int distance = 1; distance < p; distance *= 2) {
    std::vector<int> travelling;
    for (int j = 0; j < p; ++j) {
      if ((j & distance) != 0) travelling.push_back(j);
    }
    const std::size_t packed = scratch_count;
    const std::size_t arriving = packed + travelling.size() * n;
    scratch_count = arriving + travelling.size() * n;
    for (std::size_t i = 0; i < travelling.size(); ++i) {
      for (const Range& part : parts) {
        const Range target{packed + i * n + part.offset, part.count};
        fills.add(target, copy(scratch(target), travelling[i], part));
      }
      places[static_cast<std::size_t>(travelling[i])] = {BufferId::Scratch, arriving + i * n};
    }
    for (const Range& part : segments({packed, travelling.size() * n}, problem.segment_count)) {
      b.send((problem.rank + distance) % p, scratch(part), fills.touching(part));
    }
    for (const Range& part : segments({arriving, travelling.size() * n}, problem.segment_count)) {
      fills.add(part, b.recv((problem.rank - distance + p) % p, scratch(part)));
    }
  }
  for (int j = 0; j < p; ++j) {
    const std::size_t home = static_cast<std::size_t>((problem.rank - j + p) % p) * n;
    for (const Range& part : parts) copy(out({home + part.offset, part.count}), j, part);
  }
  return b.finish(scratch_count);
}

}  // namespace tutti::comm::algorithms
