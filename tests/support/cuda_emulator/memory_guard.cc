// The twin of tensor/cuda/memory_guard.cc: tells the address sanitizer, in the order of the stream, and gives fresh
// memory contents that show when they are used.
#include <tutti/tensor/cuda/memory_guard.h>

#include <algorithm>
#include <cstring>

#include "world.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tutti::tensor::cuda {
namespace {

void in_order(cudaStream_t stream, cuda_emulator::Work work) {
  auto& world = cuda_emulator::world();
  const std::scoped_lock guard(world.lock);
  world.enqueue(world.queue_of(stream), std::move(work));
}

}  // namespace

void guard_taken(void* block, std::size_t bytes, std::size_t size, cudaStream_t stream) {
  in_order(stream, [=] {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(block) + bytes, size - bytes);
#else
    (void)size;
#endif
    std::memset(block, 0xff, std::min(bytes, std::size_t{1} << 20));  // NaN in every floating type
  });
}

void guard_given_back(void* block, std::size_t size, cudaStream_t stream) {
#if defined(__SANITIZE_ADDRESS__)
  in_order(stream, [=] { ASAN_POISON_MEMORY_REGION(block, size); });
#else
  (void)block;
  (void)size;
  (void)stream;
#endif
}

}  // namespace tutti::tensor::cuda
