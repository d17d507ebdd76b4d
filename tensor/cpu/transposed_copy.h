// Copies whose source runs along another axis than their destination, as between (N, H, W, C) and (N, C, H, W). Private
// to tensor/cpu.
#pragma once

#include <tutti/tensor/tensor.h>

namespace tutti::tensor::cpu {

/// Copies `in` to `out` (one shape, type float32 or float64) in squares that are turned around in registers. Returns
/// false, having done nothing, when the two do not lie across each other like that.
bool transposed_copy(Tensor& out, const Tensor& in);

}  // namespace tutti::tensor::cpu
