// The table of the algorithms that there are: which operation each does, and what it is good for.
//
// Thread-safety: constants and pure functions. Nothing throws.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>

#include <span>
#include <string_view>

namespace tutti::comm::algorithms {

using Algorithm = Schedule (*)(const Problem&);

struct Entry {
  std::string_view name;
  OpKind op;
  Algorithm build;
  bool rotates = false;             // whenever all chunks have the same length
  bool needs_power_of_two = false;  // hands other worlds on to another algorithm
  bool needs_hosts = false;         // does nothing for ranks that share none
  bool keeps_order = false;         // combines operands in the order of their ranks
  bool has_no_gaps = false;         // all ranks send and receive until the end, and add meanwhile, however it is cut
};

/// Each algorithm of each operation; of those that are equally fast the first is to be taken.
std::span<const Entry> table();

/// `op`, or the operation whose schedule does it: a group's last barrier is a barrier, and a split an all_gather of
/// colors and keys.
OpKind with_schedule(OpKind op);

/// nullptr if no algorithm of that name does `op`.
const Entry* find_entry(OpKind op, std::string_view name);

/// Whether the algorithm does what the problem asks for, and not by way of another one.
bool fits(const Entry& entry, const Problem& problem);

/// What lengths are measured by, of messages as of tunings: all blocks of a v-form, else `count` elements.
double bytes_of(const Problem& problem, std::size_t element_bytes);

}  // namespace tutti::comm::algorithms
