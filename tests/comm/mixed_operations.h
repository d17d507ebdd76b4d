// A program of operations of all kinds, the same on all ranks, whose results are known exactly.
#pragma once

#include <tutti/comm/process_group.h>

#include <cstdint>

namespace tutti::test {}

namespace tutti::comm::test {

using namespace tutti::test;  // within comm, test:: means that of tests/support, too

/// How many operations one round has: one of each kind.
int mixed_kinds();

/// Runs `steps` operations in an order, with types, counts and roots, that `seed` decides. Wrong results fail the test;
/// throws what the group throws.
void run_mixed_operations(ProcessGroup& group, std::uint64_t seed, int steps);

}  // namespace tutti::comm::test
