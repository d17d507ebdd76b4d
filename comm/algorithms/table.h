// The table of the algorithms that there are: which operation each does, and what it is good for.
//
// Thread-safety: constants and pure functions. Nothing throws.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>

#include <span>
#include <string_view>

namespace tutti::comm::algorithms {

/// What an algorithm costs: messages that follow one another, and what is sent and what is added one after the other,
/// in vectors of Problem::count elements.
struct Cost {
  double messages = 0;
  double sent = 0;
  double added = 0;
};

/// What a cost depends on.
struct Ranks {
  Ranks(int number, double segments_of_a_vector, double parts_of_a_vector = 1);

  double p;         // how many there are
  double lg_p;      // rounded up
  double q;         // largest power of two <= p
  double lg_q;      // exact
  double segments;  // into which a vector is cut
  double parts;     // hierarchical_split: into which a vector is cut, one for each rank of the smallest host
};

using CostOf = Cost (*)(const Ranks&);

enum Trait : unsigned {
  kRotates = 1,     // whenever all chunks have the same length
  kNeedsHosts = 2,  // does nothing for ranks that share none
  kKeepsOrder = 4,  // combines operands in the order of their ranks
  kHasNoGaps = 8,   // all ranks send and receive until the end, and add meanwhile, however it is cut
};

struct Entry {
  std::string_view name;
  OpKind op;
  Algorithm build;
  CostOf cost;                   // of all ranks; with kNeedsHosts: of the messages between hosts
  unsigned traits = 0;           // of Trait
  CostOf cost_within = nullptr;  // with kNeedsHosts: of the messages within the largest host

  bool has(Trait trait) const { return (traits & trait) != 0; }
};

/// Each algorithm of each operation; of those that are equally fast the first is to be taken.
std::span<const Entry> table();

/// `op`, or the operation whose schedule does it: a group's last barrier is a barrier, and a split an all_gather of
/// colors and keys.
OpKind with_schedule(OpKind op);

/// nullptr if no algorithm of that name does `op`.
const Entry* find_entry(OpKind op, std::string_view name);

/// Whether the algorithm does what the problem asks for.
bool fits(const Entry& entry, const Problem& problem);

/// What lengths are measured by, of messages as of tunings: all blocks of a v-form, else `count` elements.
double bytes_of(const Problem& problem, std::size_t element_bytes);

}  // namespace tutti::comm::algorithms
