// A thread for each element, and taking element numbers apart. Include from device code only.
#pragma once

#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

#include <cstdint>

namespace tutti::tensor::cuda {

/// i / by, and what is left. Division in 64 bits takes some hundred instructions on a GPU, so it is avoided where 32
/// do.
__device__ inline std::int64_t split(std::int64_t i, int by, int& rest) {
  if (i <= 0xffffffff) {
    const auto small = static_cast<unsigned>(i);
    const auto divisor = static_cast<unsigned>(by);
    rest = static_cast<int>(small % divisor);
    return small / divisor;
  }
  rest = static_cast<int>(i % by);
  return i / by;
}

/// Blocks of kThreads; element first_index() belongs to a thread, those behind `count` to none.
inline Grid thread_each(std::int64_t count) {
  return {.blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads)};
}

}  // namespace tutti::tensor::cuda
