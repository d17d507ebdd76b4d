// CachingAllocator: memory for tensors. A freed block goes to the free list of its size class and the next request of
// that class gets it back, warm and already mapped; fresh pages cost more than most of our kernels.
//
// Size classes: 64 bytes at least, then four steps per doubling, so at most a fifth of a block is unused. One spin lock
// per class, held for two pointer moves. Blocks are 64-byte aligned (one cache line, one AVX-512 register); large ones
// begin on a page of 2 MiB, and the system is asked for such pages, which saves most misses of the address cache: a
// pass over 25 MB of weights takes half as long.
// Thread-safety: every function may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace tutti::tensor {

class CachingAllocator {
 public:
  static constexpr std::size_t kAlignment = 64;
  /// Blocks of twice this size and more are aligned to it and lie on huge pages, where the system has them.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  CachingAllocator() = default;
  ~CachingAllocator();  // frees the cached blocks; blocks in use must have come back before
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// At least `bytes` bytes of undefined contents. Throws std::bad_alloc after giving the cache back and trying again.
  void* allocate(std::size_t bytes);
  /// `bytes` as given to allocate. nullptr is fine.
  void deallocate(void* block, std::size_t bytes) noexcept;
  /// Gives every cached block back to the system.
  void trim() noexcept;

  /// Bytes in blocks handed out and not yet returned, counted by size class.
  std::size_t live_bytes() const;
  /// Bytes waiting in free lists.
  std::size_t cached_bytes() const;
  /// How many blocks were asked of the system since construction; constant while the cache serves everything.
  std::size_t system_allocations() const { return system_allocations_.load(std::memory_order_relaxed); }

  /// The size of the block that a request of `bytes` gets.
  static std::size_t block_size(std::size_t bytes);

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  struct alignas(kAlignment) SizeClass {
    mutable std::atomic_flag lock;
    FreeBlock* head = nullptr;
    std::size_t live_blocks = 0;
    std::size_t cached_blocks = 0;
  };
  static constexpr int kClasses = 160;

  static void* take(SizeClass& size_class);

  std::array<SizeClass, kClasses> classes_;
  std::atomic<std::size_t> system_allocations_{0};
};

/// The allocator behind every CPU tensor of the process. Never destroyed, so that tensors in static objects may die
/// late.
CachingAllocator& cpu_allocator();

}  // namespace tutti::tensor
