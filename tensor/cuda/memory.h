// DeviceAllocator: memory of one GPU. A freed block goes back to the stream it was allocated for and is given out again
// there at once: work on one stream runs in order, so the new owner's kernels come after the old one's.
//
// A block that is freed while the freeing thread works on another stream waits until that stream has passed. Sizes are
// rounded up to four steps per doubling (at most a fifth is unused). Thread-safety: every function from any thread.
#pragma once

#include <cuda_runtime_api.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/runtime.h>

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace tutti::tensor::cuda {

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device) {}

  /// For work on `stream`. Throws std::runtime_error with what was asked, free, total and cached.
  void* allocate(std::size_t bytes, cudaStream_t stream);
  /// `stream`: where the caller works now.
  void deallocate(void* block, cudaStream_t stream) noexcept;
  /// From now until release(), freed blocks of `stream` go to nobody else: a graph that was recorded on it holds their
  /// addresses.
  void hold(cudaStream_t stream);
  void release(cudaStream_t stream);
  void trim();
  MemoryUse use();

  static std::size_t block_size(std::size_t bytes);

 private:
  struct Block {
    std::size_t size = 0;
    cudaStream_t stream = nullptr;
  };
  struct Waiting {
    void* address;
    Block block;
    Event passed;  // by the stream that may still read it
  };
  using FreeBlocks = std::multimap<std::size_t, void*>;

  void* take(std::size_t size, cudaStream_t stream);
  void put(void* address, const Block& block);
  void collect();
  void trim_locked();
  [[noreturn]] void throw_out_of_memory(std::size_t bytes);

  int device_;
  std::mutex mutex_;
  std::map<void*, Block> live_;
  std::map<cudaStream_t, FreeBlocks> free_;
  std::list<Waiting> waiting_;  // freed
  std::set<cudaStream_t> held_;
  std::size_t live_bytes_ = 0;
  std::size_t cached_bytes_ = 0;
  std::size_t system_allocations_ = 0;
};

/// Never destroyed: tensors in static objects may die late.
DeviceAllocator& allocator(int device);

}  // namespace tutti::tensor::cuda
