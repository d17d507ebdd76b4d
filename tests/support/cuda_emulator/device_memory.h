// The memory of the emulated devices: one region of address space each, which the host may not touch unless the device
// is at work. Private to the emulator; all of it under the world's lock (stream.h).
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace cuda_emulator {

class DeviceMemory {
 public:
  explicit DeviceMemory(int device);

  /// nullptr when it does not fit. 512-byte aligned; the first MiB is NaN in every type.
  void* allocate(std::size_t bytes);
  bool release(void* block);
  bool contains(const void* pointer) const;
  /// The block that holds `pointer`: its begin and size.
  std::pair<std::byte*, std::size_t> block_of(const void* pointer) const;

  void open();   // for the device's work
  void close();  // the host's touch is a fault again

  std::size_t total() const { return total_; }
  std::size_t free_bytes() const { return total_ - used_; }
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t total_ = 0;
  std::size_t used_ = 0;
  int file_ = -1;
  bool open_ = false;
  std::map<std::byte*, std::size_t> blocks_;  // by address, sizes with the gap behind them
};

}  // namespace cuda_emulator
