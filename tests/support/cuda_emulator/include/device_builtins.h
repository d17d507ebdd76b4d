// What device code sees: the keywords, threadIdx and its kin, vector types, barriers, warp functions, atomics.
//
// The threads of a block are fibers on one thread of the operating system, and blocks run one after the other: so
// __shared__ is `static thread_local`, and an atomic is a plain operation. Dynamic shared memory is not declared with
// `extern __shared__` in our sources but asked for with dynamic_shared<T>() (tensor/cuda/device.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_extent = 1, unsigned y_extent = 1, unsigned z_extent = 1)
      : x(x_extent), y(y_extent), z(z_extent) {}
};

inline constexpr int warpSize = 32;

// Of the thread that runs now; the scheduler (grid.cc) sets them.
extern thread_local uint3 threadIdx;
extern thread_local uint3 blockIdx;
extern thread_local dim3 blockDim;
extern thread_local dim3 gridDim;

namespace cuda_emulator {
void block_barrier();
void warp_barrier(unsigned mask);
/// Every lane of `mask` gives 8 bytes and gets those of `source` (its own, if that lane is not in the mask).
std::uint64_t exchange(unsigned mask, std::uint64_t bits, unsigned source_lane);
unsigned lane();
void* dynamic_shared_memory();
}  // namespace cuda_emulator

inline void __syncthreads() { cuda_emulator::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_emulator::warp_barrier(mask); }

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t raw = 0;
  std::memcpy(&raw, &value, sizeof value);
  raw = cuda_emulator::exchange(mask, raw, cuda_emulator::lane() ^ static_cast<unsigned>(bits));
  std::memcpy(&value, &raw, sizeof value);
  return value;
}

template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}

inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
