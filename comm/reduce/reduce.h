// Reduction kernels over untyped memory.
//
// Thread-safety: pure functions on the caller's memory. Pointers need no alignment. Source and target must not overlap,
// except target == the accumulator operand itself.
#pragma once

#include <cstddef>

#include <tutti/comm/base/types.h>

namespace tutti::comm {

/// target[i] = target[i] (op) incoming[i], or incoming[i] (op) target[i] if `incoming_first`. Avg adds (scale() divides).
/// min and max give NaN if either operand is NaN; integer sums and products wrap.
void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, ReduceOp op, bool incoming_first);

/// data[i] /= divisor. Floating point only; the caller has refused the rest.
void scale_down(void* data, std::size_t count, DType dtype, int divisor);

}  // namespace tutti::comm
