// What device code sees: the keywords, threadIdx and its kin, vector types, barriers, warp functions, atomics.
//
// The threads of a block are fibers on one thread of the operating system, and blocks run one after the other: so
// __shared__ is `static thread_local`, and an atomic is a plain operation. Dynamic shared memory is not declared with
// `extern __shared__` in our sources but asked for with dynamic_shared<T>() (tensor/cuda/device.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __constant__
#define __grid_constant__

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_extent = 1, unsigned y_extent = 1, unsigned z_extent = 1)
      : x(x_extent), y(y_extent), z(z_extent) {}
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

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
[[noreturn]] void trap();

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
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { cuda_emulator::trap(); }

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
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = static_cast<int>(cuda_emulator::lane());
  const int source = lane - static_cast<int>(delta);
  return cuda_emulator::exchange_value(mask, value, source >= (lane & ~(width - 1)) ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return cuda_emulator::ballot(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

template <typename T>
T __ldg(const T* from) {
  return *from;
}

template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = static_cast<T>(old + value);
  return old;
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  if (value > old) *at = value;
  return old;
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
template <typename T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = value;
  return old;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
