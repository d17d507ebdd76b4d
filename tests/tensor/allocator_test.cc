#include <gtest/gtest.h>
#include <tutti/tensor/allocator.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace tutti::tensor {
namespace {

TEST(Allocator, ReusesAFreedBlockOfTheSameClass) {
  CachingAllocator allocator;
  void* first = allocator.allocate(1000);
  allocator.deallocate(first, 1000);
  EXPECT_GT(allocator.cached_bytes(), 0u);
  void* second = allocator.allocate(1010);
  EXPECT_EQ(first, second);
  EXPECT_EQ(allocator.system_allocations(), 1u);
  allocator.deallocate(second, 1010);
}

TEST(Allocator, BlocksFitAndWasteLittle) {
  for (std::size_t bytes = 0; bytes < 5000; ++bytes) {
    const std::size_t block = CachingAllocator::block_size(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_EQ(block % CachingAllocator::kAlignment, 0u);
    ASSERT_LE(block, bytes + bytes / 4 + CachingAllocator::kAlignment);
  }
  for (int log2 = 13; log2 < 40; ++log2) {
    for (const std::size_t bytes :
         {(std::size_t{1} << log2) - 1, std::size_t{1} << log2, (std::size_t{1} << log2) + 1}) {
      ASSERT_GE(CachingAllocator::block_size(bytes), bytes);
      ASSERT_LE(CachingAllocator::block_size(bytes), bytes + bytes / 4 + CachingAllocator::kAlignment);
    }
  }
}

// The flags that the kernel shows of the mapping that holds `address`; empty where it shows none.
std::string mapping_flags(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2) {
      inside = first <= wanted && wanted < last;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return {};
}

TEST(Allocator, LargeBlocksAskForHugePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "the kernel has no huge pages";
  CachingAllocator allocator;
  constexpr std::size_t kLarge = 2 * CachingAllocator::kHugePage;
  auto* const block = static_cast<std::byte*>(allocator.allocate(kLarge));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % CachingAllocator::kHugePage, 0u);
  EXPECT_NE(mapping_flags(block).find(" hg"), std::string::npos) << mapping_flags(block);
  EXPECT_NE(mapping_flags(block + kLarge - 1).find(" hg"), std::string::npos);
  std::memset(block, 0x5a, kLarge);
  allocator.deallocate(block, kLarge);
  EXPECT_EQ(allocator.allocate(kLarge), block);
  allocator.deallocate(block, kLarge);
}

TEST(Allocator, CountsLiveBytesAndTrims) {
  CachingAllocator allocator;
  std::vector<std::pair<void*, std::size_t>> blocks;
  std::size_t expected = 0;
  for (std::size_t bytes = 1; bytes < 20'000'000; bytes = bytes * 3 + 1) {
    blocks.emplace_back(allocator.allocate(bytes), bytes);
    std::memset(blocks.back().first, 0x5a, bytes);
    expected += CachingAllocator::block_size(bytes);
  }
  EXPECT_EQ(allocator.live_bytes(), expected);
  for (const auto& [block, bytes] : blocks) allocator.deallocate(block, bytes);
  EXPECT_EQ(allocator.live_bytes(), 0u);
  EXPECT_EQ(allocator.cached_bytes(), expected);
  allocator.trim();
  EXPECT_EQ(allocator.cached_bytes(), 0u);
}

TEST(Allocator, RefusesWhatNoMachineHas) {
  CachingAllocator allocator;
  EXPECT_THROW(allocator.allocate(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  EXPECT_EQ(allocator.live_bytes(), 0u);
  allocator.deallocate(nullptr, 100);
}

TEST(Allocator, ThreadsShareIt) {
  CachingAllocator allocator;
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&allocator, id] {
      for (int i = 0; i < 2000; ++i) {
        const std::size_t bytes = 64 + static_cast<std::size_t>(i % 7) * 100;
        void* block = allocator.allocate(bytes);
        std::memset(block, id, bytes);
        allocator.deallocate(block, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.live_bytes(), 0u);
}

}  // namespace
}  // namespace tutti::tensor
