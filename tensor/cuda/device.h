// What kernels share: the index of a thread in a loop over many elements, wide loads, sums and maxima of a warp and of
// a block. Device code only; compiled by nvcc, and by g++ for the emulated device of the tests. Therefore: no <<<>>>
// (launch.h), shared arrays of fixed size, and functor structs where a kernel takes a function.
//
// The order in which a sum adds up depends on the shape of the block alone, so results are the same in every run.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace tutti::tensor::cuda {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// For loops of the whole grid: i = first_index(); i < count; i += index_step().
__device__ inline std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t index_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// Functions of both precisions, by overload.
__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ inline double hyperbolic_tangent(double x) { return tanh(x); }

/// 16 bytes, loaded and stored by one instruction.
template <typename T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

/// The sum over a warp, in every lane.
template <typename T>
__device__ inline T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

/// The larger one; NaN if one of them is.
template <typename T>
__device__ inline T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

template <typename T>
__device__ inline T warp_max(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = larger(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// The sum over a block of kThreads (a multiple of 32, one-dimensional), in every thread. All threads must call it.
template <int kThreads, typename T>
__device__ inline T block_sum(T value) {
  __shared__ T parts[kThreads / 32];
  value = warp_sum(value);
  if (threadIdx.x % kWarpLanes == 0) parts[threadIdx.x / kWarpLanes] = value;
  __syncthreads();
  T total = 0;
  for (int i = 0; i < kThreads / 32; ++i) total += parts[i];
  __syncthreads();  // before `parts` is used again
  return total;
}

template <int kThreads, typename T>
__device__ inline T block_max(T value) {
  __shared__ T parts[kThreads / 32];
  value = warp_max(value);
  if (threadIdx.x % kWarpLanes == 0) parts[threadIdx.x / kWarpLanes] = value;
  __syncthreads();
  T largest = parts[0];
  for (int i = 1; i < kThreads / 32; ++i) largest = larger(largest, parts[i]);
  __syncthreads();
  return largest;
}

}  // namespace tutti::tensor::cuda
