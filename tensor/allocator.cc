#include <tutti/tensor/allocator.h>

#include <bit>
#include <cstdlib>
#include <limits>
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
  return {1 + (log2 - kSmallestLog2) * 4 + static_cast<int>(quarter), (std::size_t{1} << log2) + (quarter + 1) * step};
}

std::size_t aligned_size(std::size_t bytes) {
  return (bytes + CachingAllocator::kAlignment - 1) / CachingAllocator::kAlignment * CachingAllocator::kAlignment;
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

// A cached block is off limits for the program; address sanitizer can only know when told.
void forbid([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(block, bytes);
#endif
}

void permit([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
#endif
}

}  // namespace

CachingAllocator::~CachingAllocator() { trim(); }

std::size_t CachingAllocator::block_size(std::size_t bytes) { return aligned_size(class_of(bytes).block_bytes); }

void* CachingAllocator::take(SizeClass& size_class) {
  const SpinGuard guard(size_class.lock);
  FreeBlock* block = size_class.head;
  if (block == nullptr) return nullptr;
  permit(block, sizeof(FreeBlock));
  size_class.head = block->next;
  return block;
}

void* CachingAllocator::allocate(std::size_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  const auto [index, block_bytes] = class_of(bytes);
  const std::size_t size = aligned_size(block_bytes);
  void* block = take(classes_[static_cast<std::size_t>(index)]);
  if (block != nullptr) {
    cached_bytes_.fetch_sub(size, std::memory_order_relaxed);
    permit(block, size);
  } else {
    block = std::aligned_alloc(kAlignment, size);
    if (block == nullptr) {
      trim();
      block = std::aligned_alloc(kAlignment, size);
    }
    if (block == nullptr) throw std::bad_alloc();
    system_allocations_.fetch_add(1, std::memory_order_relaxed);
  }
  live_bytes_.fetch_add(size, std::memory_order_relaxed);
  return block;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const auto [index, block_bytes] = class_of(bytes);
  const std::size_t size = aligned_size(block_bytes);
  live_bytes_.fetch_sub(size, std::memory_order_relaxed);
  cached_bytes_.fetch_add(size, std::memory_order_relaxed);
  auto* free_block = new (block) FreeBlock{nullptr};
  SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
  const SpinGuard guard(size_class.lock);
  free_block->next = size_class.head;
  size_class.head = free_block;
  forbid(block, size);
}

void CachingAllocator::trim() noexcept {
  for (int index = 0; index < kClasses; ++index) {
    SizeClass& size_class = classes_[static_cast<std::size_t>(index)];
    // Inverse of class_of: index 0 holds the smallest blocks.
    const int doubling = kSmallestLog2 + (index - 1) / 4;
    const std::size_t quarter = static_cast<std::size_t>((index - 1) % 4 + 1);
    const std::size_t bytes =
        index == 0 ? kSmallest : (std::size_t{1} << doubling) + quarter * (std::size_t{1} << (doubling - 2));
    while (void* block = take(size_class)) {
      permit(block, aligned_size(bytes));
      std::free(block);
      cached_bytes_.fetch_sub(aligned_size(bytes), std::memory_order_relaxed);
    }
  }
}

CachingAllocator& cpu_allocator() {
  static CachingAllocator* const allocator = new CachingAllocator;
  return *allocator;
}

}  // namespace tutti::tensor
