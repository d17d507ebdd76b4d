// Reduction kernels over untyped memory.
//
// Thread-safety: pure functions on the caller's memory. Pointers need no alignment. Target and incoming must not
// overlap.
#pragma once

#include <tutti/comm/base/reduction.h>
#include <tutti/comm/base/types.h>

#include <cstddef>
#include <span>
#include <vector>

namespace tutti::comm {

/// target[i] = target[i] (op) incoming[i], or incoming[i] (op) target[i] if `incoming_first`. Avg adds; scale_down()
/// divides. Two ranks that hold each other's operands, one with incoming_first and one without, get equal bits.
///  - Integers: sums and products wrap.
///  - Floating point: min and max give NaN if either operand is NaN; of -0 and +0 they give the second operand.
///  - Float16 and BFloat16: each pair is computed in float and rounded once, to nearest even; a chain of reductions
///    therefore rounds at each of its steps, and a Float16 sum beyond 65504 is infinite (so is an Avg of it).
///  - Bool: Sum, Max and BOr are "or"; Prod, Min and BAnd are "and"; BXor is "unequal". Bytes other than 0 count as 1.
/// Where refusal() in types.h refuses, the target stays as it is: the caller has checked.
void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, ReduceOp op, bool incoming_first);

/// Each target's [i] = sources[0][i] (op) sources[1][i] (op) ..., from the left; Avg divides by their number. The bits
/// are those of a chain of reduce_into() and of scale_down(); memory is passed over once. At least one source. A target
/// may be one of the sources.
void reduce_all(std::span<std::byte* const> targets, std::span<const std::byte* const> sources, std::size_t count,
                DType dtype, ReduceOp op);

/// The same for the sum of `count` float64, of which each target receives float32: rounded once, at the end, and
/// without the sign of a zero. A target overlaps no source.
void reduce_rounded(std::span<std::byte* const> targets, std::span<const std::byte* const> sources, std::size_t count);

/// data[i] /= divisor, correctly rounded (Float16, BFloat16: divided in float, then rounded once); divisor > 0.
/// Floating point only: other types are left as they are, the caller has refused them.
void scale_down(void* data, std::size_t count, DType dtype, int divisor);

/// As reduce_into() of reduce.h. `incoming_first` needs memory to swap the operands, which `spare` keeps for the next
/// call. Throws Operator with the operator's name and its error's text if it throws.
void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, const UserOp& op,
                 bool incoming_first, std::vector<std::byte>& spare);

}  // namespace tutti::comm
