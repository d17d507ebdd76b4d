#include <tutti/tensor/cuda/memory_guard.h>

namespace tutti::tensor::cuda {

void guard_taken(void*, std::size_t, std::size_t, cudaStream_t) {}

void guard_given_back(void*, std::size_t, cudaStream_t) {}

}  // namespace tutti::tensor::cuda
