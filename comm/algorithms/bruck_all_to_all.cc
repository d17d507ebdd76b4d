// Bruck: all_to_all in the fewest rounds, for many ranks and tiny blocks.
//
// Idea: number a rank's blocks by how far they have to go: block j is for the rank j further on. In round k all blocks
// whose j has bit k set travel 2^k ranks further, in one message; written in binary, j says which rounds they take part
// in, and after ceil(lg p) rounds all have arrived. Block j that has arrived at rank r comes from rank r - j.
//
// Nomenclature: p ranks, n elements per pair of ranks; d = 2^k; m <= p/2 blocks travel in a round. Blocks are packed in
// Scratch, and stay there where they were received until they travel again or go to Output.
//
// Steps:          ceil(lg p) rounds
// Bytes sent:     about n p/2 lg p elements a rank, each copied once before it is sent, in ceil(lg p) messages
// Memory:         Scratch[2 m n] for each round, about n p lg p
// Determinism:    nothing is computed.
// Source:         Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport
//                 message-passing systems. IEEE TPDS 8 (1997). https://doi.org/10.1109/71.642949
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

/// Where a block lies: its first element.
struct Place {
  BufferId buffer = BufferId::Input;
  std::size_t offset = 0;
};

}  // namespace

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
