// Reduction kernels over untyped memory.
//
// Thread-safety: pure functions on the caller's memory. Pointers need no alignment. Target and incoming must not
// overlap.
#pragma once

#include <tutti/comm/base/types.h>

#include <cstddef>

namespace tutti::comm {

/// target[i] = target[i] (op) incoming[i], or incoming[i] (op) target[i] if `incoming_first`. Avg adds; scale_down()
/// divides. Integer sums and products wrap. min and max give NaN if either operand is NaN; of -0 and +0 they give the
/// second operand. Two ranks that hold each other's operands, one with incoming_first and one without, get equal bits.
void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, ReduceOp op, bool incoming_first);

/// data[i] /= divisor, correctly rounded; divisor > 0. Float32 and Float64 only: other types are left as they are, the
/// caller has refused them.
void scale_down(void* data, std::size_t count, DType dtype, int divisor);

}  // namespace tutti::comm
