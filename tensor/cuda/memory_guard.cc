#include <tutti/tensor/cuda/memory_guard.h>

#include <cstdlib>

namespace tutti::tensor::cuda {

void guard_taken(void* block, std::size_t bytes, std::size_t, cudaStream_t stream) {
  static const char* const poison = std::getenv("TUTTI_CUDA_POISON");
  if (poison != nullptr && *poison == '1') (void)cudaMemsetAsync(block, 0xff, bytes, stream);
}

void guard_given_back(void*, std::size_t, cudaStream_t) {}

}  // namespace tutti::tensor::cuda
