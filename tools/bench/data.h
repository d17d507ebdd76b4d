// Data that can be verified exactly: every element is a function of (seed, rank, index), and every reduction of such
// elements is exact in every type and in any order, so that results are compared bit for bit.
//
// Sums and averages see integers from -128 to 127 (wrapped where the type has no sign); products see odd integers,
// which wrap, or for floating point the powers of two -1, 1, 2 and 0.5. Thread-safety: pure functions on the caller's
// memory.
#pragma once

#include <tutti/comm/base/types.h>
#include <tutti/tools/bench/operations.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::tools::bench {

/// The element types that there is data of.
std::vector<comm::DType> verifiable_types();

/// What rank c.rank has before the call: fills `data` (of type c.dtype).
void fill_data(const Case& c, std::uint64_t seed, comm::Buffer data);

/// What it must have afterwards: element i of `data` is what operation.origin(c, i) says. Time grows with the number of
/// ranks for an operation that reduces.
void fill_expected(const Operation& operation, const Case& c, std::uint64_t seed, comm::Buffer data);

/// The number of elements whose bits differ. Both have the same type and count.
std::size_t count_wrong(comm::ConstBuffer data, comm::ConstBuffer expected);

}  // namespace tutti::tools::bench
