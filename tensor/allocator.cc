#include <sys/mman.h>
#include <tutti/tensor/allocator.h>

#include <bit>
#include <cstdlib>
#include <new>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tutti::tensor {
namespace {

constexpr std::size_t kSmallest = 64;
constexpr int kSmallestLog2 = 6;
constexpr std::size_t kLargest = std::size_t{1} << 45;

std::size_t aligned(std::size_t bytes) {
  return (bytes + CachingAllocator::kAlignment - 1) / CachingAllocator::kAlignment * CachingAllocator::kAlignment;
}

struct ClassOf {
  int index;
  std::size_t block_bytes;
};

// Four classes per doubling: the two bits below the leading one choose the step.
ClassOf class_of(std::size_t bytes) {
  if (bytes <= kSmallest) return {0, kSmallest};
  const std::size_t last = bytes - 1;
  const int log2 = static_cast<int>(std::bit_width(last)) - 1;
  const std::size_t step = std::size_t{1} << (log2 - 2);
  const std::size_t quarter = (last >> (log2 - 2)) & 3;
  return {1 + (log2 - kSmallestLog2) * 4 + static_cast<int>(quarter),
          aligned((std::size_t{1} << log2) + (quarter + 1) * step)};
}

// The block size of a class; inverse of class_of.
std::size_t bytes_of(int index) {
  if (index == 0) return kSmallest;
  const int log2 = kSmallestLog2 + (index - 1) / 4;
  const auto quarter = static_cast<std::size_t>((index - 1) % 4);
  return aligned((std::size_t{1} << log2) + (quarter + 1) * (std::size_t{1} << (log2 - 2)));
}

// Null when there is no memory. The last part of a block, shorter than a huge page, keeps ordinary pages: a huge one
// would take memory that nobody asked for. Where huge pages are switched off the advice fails, and nothing is lost.
void* from_system(std::size_t bytes) {
  constexpr std::size_t kHugePage = CachingAllocator::kHugePage;
  const bool is_long = bytes >= 2 * kHugePage;
  void* block = nullptr;  // aligned_alloc takes whole multiples of the alignment only
  if (::posix_memalign(&block, is_long ? kHugePage : CachingAllocator::kAlignment, bytes) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (is_long) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return block;
}

class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag& flag) : flag_(flag) {
    // Yield, not spin: the holder may have lost its core, and a host runs more ranks than cores.
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~SpinGuard() { flag_.clear(std::memory_order_release); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  std::atomic_flag& flag_;
};

// A cached block is off limits for the program; address sanitizer can only know when told. Its first bytes stay
// readable: they hold the link to the next block, which the leak check must be able to follow.
void forbid([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(block) + sizeof(void*), bytes - sizeof(void*));
#endif
}

void permit([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
#endif
}

}  // namespace

CachingAllocator::~CachingAllocator() { trim(); }

std::size_t CachingAllocator::block_size(std::size_t bytes) { return class_of(bytes).block_bytes; }

void* CachingAllocator::take(SizeClass& size_class) {
  FreeBlock* block = size_class.head;
  if (block == nullptr) return nullptr;
  size_class.head = block->next;
  --size_class.cached_blocks;
  return block;
}

void* CachingAllocator::allocate(std::size_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  const auto [index, size] = class_of(bytes);
  SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
  void* block = nullptr;
  {
    const SpinGuard guard(size_class.lock);
    block = take(size_class);
    ++size_class.live_blocks;
  }
  if (block != nullptr) {
    permit(block, size);
    return block;
  }
  block = from_system(size);
  if (block == nullptr) {
    trim();
    block = from_system(size);
  }
  if (block == nullptr) {
    const SpinGuard guard(size_class.lock);
    --size_class.live_blocks;
    throw std::bad_alloc();
  }
  system_allocations_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const auto [index, size] = class_of(bytes);
  auto* free_block = new (block) FreeBlock{nullptr};
  SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
  const SpinGuard guard(size_class.lock);
  free_block->next = size_class.head;
  size_class.head = free_block;
  --size_class.live_blocks;
  ++size_class.cached_blocks;
  forbid(block, size);
}

void CachingAllocator::trim() noexcept {
  for (int index = 0; index < kClasses; ++index) {
    SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
    const SpinGuard guard(size_class.lock);
    while (void* block = take(size_class)) {
      permit(block, bytes_of(index));
      std::free(block);
    }
  }
}

std::size_t CachingAllocator::live_bytes() const {
  std::size_t total = 0;
  for (int index = 0; index < kClasses; ++index) {
    const SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
    const SpinGuard guard(size_class.lock);
    total += size_class.live_blocks * bytes_of(index);
  }
  return total;
}

std::size_t CachingAllocator::cached_bytes() const {
  std::size_t total = 0;
  for (int index = 0; index < kClasses; ++index) {
    const SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
    const SpinGuard guard(size_class.lock);
    total += size_class.cached_blocks * bytes_of(index);
  }
  return total;
}

CachingAllocator& cpu_allocator() {
  static CachingAllocator* const allocator = new CachingAllocator;
  return *allocator;
}

}  // namespace tutti::tensor
