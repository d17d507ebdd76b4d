// What the allocator tells a memory checker; on a real GPU nothing, but with TUTTI_CUDA_POISON=1 fresh memory is NaN
// (memory_guard.cc). The emulated device of the tests links its own twin, which lets the address sanitizer see device
// blocks as the program asked for them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tutti::tensor::cuda {

/// In the order of `stream`: the first `bytes` of a block of `size` bytes are the program's, with undefined contents.
void guard_taken(void* block, std::size_t bytes, std::size_t size, cudaStream_t stream);
/// None of them is any more.
void guard_given_back(void* block, std::size_t size, cudaStream_t stream);

}  // namespace tutti::tensor::cuda
