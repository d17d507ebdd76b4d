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
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int source_lane);
/// One bit a lane of `mask`.
unsigned ballot(unsigned mask, bool predicate);
unsigned lane();
void* dynamic_shared_memory();

template <typename T>
T exchange_value(unsigned mask, T value, int source_lane) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source_lane);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace cuda_emulator

inline void __syncthreads() { cuda_emulator::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_emulator::warp_barrier(mask); }

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int lane = static_cast<int>(cuda_emulator::lane());
  return cuda_emulator::exchange_value(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize) {
  const int lane = static_cast<int>(cuda_emulator::lane());
  const int source = lane ^ bits;
  const bool inside = (source & ~(width - 1)) <= (lane & ~(width - 1));
  return cuda_emulator::exchange_value(mask, value, inside ? source : lane);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = static_cast<int>(cuda_emulator::lane());
  const int source = lane + static_cast<int>(delta);
  return cuda_emulator::exchange_value(mask, value, (source & ~(width - 1)) == (lane & ~(width - 1)) ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return cuda_emulator::ballot(mask, predicate != 0); }

template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}

inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
