// Reductions of 16-bit floating point numbers, computed in float. Internal to comm/reduce.
//
// Thread-safety: pure functions on the caller's memory. reduce.h says what they compute.
#pragma once

#include <tutti/comm/base/types.h>
#include <tutti/comm/reduce/elementwise.h>

namespace tutti::comm {

/// Avg divides by `divisor`, unless that is 0. Bitwise operators leave the targets as they are.
void combine_float16(const elementwise::Rows& rows, ReduceOp op, int divisor);
void combine_bfloat16(const elementwise::Rows& rows, ReduceOp op, int divisor);

}  // namespace tutti::comm
