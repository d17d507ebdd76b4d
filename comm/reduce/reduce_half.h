// Reductions of 16-bit floating point numbers, computed in float. Internal to comm/reduce.
//
// Thread-safety: pure functions on the caller's memory. Pointers need no alignment; the result may overwrite either
// operand. reduce.h says what they compute.
#pragma once

#include <tutti/comm/base/types.h>

#include <cstddef>

namespace tutti::comm {

/// result[i] = first[i] (op) second[i]. Bitwise operators leave the result as it is.
void combine_float16(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count,
                     ReduceOp op);
void combine_bfloat16(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count,
                      ReduceOp op);

/// data[i] /= divisor; divisor > 0.
void scale_down_float16(std::byte* data, std::size_t count, int divisor);
void scale_down_bfloat16(std::byte* data, std::size_t count, int divisor);

}  // namespace tutti::comm
