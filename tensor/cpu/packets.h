// exp and tanh of single elements by the same vector instructions wherever an element lies. Private to tensor/cpu.
//
// Eigen computes what does not fill a vector, or lies before an aligned address, by other instructions, whose last bits
// differ; an element's value would depend on where in a batch it is. So it is given whole vectors only.
#pragma once

#include <cstdint>

namespace tutti::tensor::cpu {

/// to[i] = exp(from[i]), for T = float and double; in place as well. Saturates, and does not promise to keep NaN.
template <typename T>
void exponentials(T* to, const T* from, std::int64_t count);

/// The same for tanh.
template <typename T>
void hyperbolic_tangents(T* to, const T* from, std::int64_t count);

}  // namespace tutti::tensor::cpu
