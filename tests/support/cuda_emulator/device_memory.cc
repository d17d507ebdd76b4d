#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cuda_emulator {
namespace {

constexpr std::size_t kGranule = 512;
constexpr std::size_t kFilled = 1 << 20;  // more would only cost time
constexpr std::size_t kGap = 512;  // between two blocks, so that running over the end of one does not reach the next

std::size_t configured_bytes() {
  const char* text = std::getenv("TUTTI_EMULATOR_MEMORY");  // MiB
  return (text == nullptr ? std::size_t{2048} : std::strtoull(text, nullptr, 10)) << 20;
}

std::size_t with_gap(std::size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule + kGap; }

}  // namespace

DeviceMemory::DeviceMemory(int device) : total_(configured_bytes()) {
  const std::string name = "cuda_emulator:" + std::to_string(device);
  file_ = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(total_)) != 0) {
    std::perror("cuda_emulator: memory for the device");
    std::abort();
  }
  void* const memory = mmap(nullptr, total_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (memory == MAP_FAILED) {
    std::perror("cuda_emulator: mmap");
    std::abort();
  }
  base_ = static_cast<std::byte*>(memory);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t size = with_gap(bytes);
  if (size > free_bytes()) return nullptr;
  std::byte* at = base_;
  for (const auto& [block, taken] : blocks_) {  // first fit
    if (static_cast<std::size_t>(block - at) >= size) break;
    at = block + taken;
  }
  if (static_cast<std::size_t>(base_ + total_ - at) < size) return nullptr;
  blocks_[at] = size;
  used_ += size;
  const bool was_open = open_;
  open();
  std::memset(at, 0xff, std::min(size, kFilled));
  if (!was_open) close();
  return at;
}

bool DeviceMemory::release(void* block) {
  const auto found = blocks_.find(static_cast<std::byte*>(block));
  if (found == blocks_.end()) return false;
  used_ -= found->second;
  blocks_.erase(found);
  return true;
}

bool DeviceMemory::contains(const void* pointer) const {
  const auto* at = static_cast<const std::byte*>(pointer);
  return at >= base_ && at < base_ + total_;
}

std::pair<std::byte*, std::size_t> DeviceMemory::block_of(const void* pointer) const {
  auto* at = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return {nullptr, 0};
  --found;
  return at < found->first + found->second ? std::pair(found->first, found->second)
                                           : std::pair<std::byte*, std::size_t>();
}

void DeviceMemory::open() {
  if (!open_ && mprotect(base_, total_, PROT_READ | PROT_WRITE) != 0) std::abort();
  open_ = true;
}

void DeviceMemory::close() {
  if (open_ && mprotect(base_, total_, PROT_NONE) != 0) std::abort();
  open_ = false;
}

}  // namespace cuda_emulator
