// Guarded memory for the buffers of a call: the page behind the last element, and the one before the first, cannot be
// touched, and a buffer that is not to be changed cannot be written.
//
// Part of the driver: one thread; a process has one `Buffers` at a time, which the handler of faults reads.
#pragma once

#include <sys/mman.h>
#include <tutti/tools/labs/driver/protocol.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tutti::labs::driver {

inline constexpr std::size_t kPage = 4096;

class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t bytes, bool is_const) : bytes_(bytes), is_const_(is_const) {
    pages_ = (bytes + kPage - 1) / kPage * kPage;
    void* memory = mmap(nullptr, pages_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();  // the limit on memory; the referee sees how this process ends
    base_ = static_cast<unsigned char*>(memory);
    protect(PROT_READ | PROT_WRITE);
  }
  ~GuardedBuffer() { munmap(base_, pages_ + 2 * kPage); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  unsigned char* data() const { return base_ + kPage + pages_ - bytes_; }
  std::size_t bytes() const { return bytes_; }
  void lock() {
    if (is_const_) protect(PROT_READ);
  }
  bool covers(std::uintptr_t address) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(base_);
    return address >= begin && address < begin + pages_ + 2 * kPage;
  }

 private:
  void protect(int how) const {
    if (pages_ > 0) mprotect(base_ + kPage, pages_, how);
  }

  std::size_t bytes_;
  std::size_t pages_ = 0;
  bool is_const_;
  unsigned char* base_ = nullptr;
};

}  // namespace tutti::labs::driver
