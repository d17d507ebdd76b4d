// Storage: the bytes under one or more tensors, on one device. Freed memory goes back to the caching allocator.
// Owned through std::shared_ptr by every tensor that looks at it. Thread-safety: none for the bytes. Memory of a GPU
// belongs to the stream on which the thread that allocates it works (cuda/memory.h).
#pragma once

#include <tutti/tensor/device.h>

#include <cstddef>
#include <memory>

namespace tutti::tensor {

class Storage {
 public:
  /// Undefined contents, 64-byte aligned. Throws std::runtime_error naming the device when it cannot hold tensors and
  /// the size when memory is exhausted.
  static std::shared_ptr<Storage> allocate(std::size_t bytes, Device device);
  /// Somebody else's memory on `device`; `owner` lives as long as the storage. Throws for a device that cannot hold
  /// tensors.
  static std::shared_ptr<Storage> over(void* memory, std::size_t bytes, std::shared_ptr<void> owner, Device device);

  Storage(void* data, std::size_t bytes, Device device, bool owned, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() { return data_; }
  const void* data() const { return data_; }
  std::size_t nbytes() const { return bytes_; }
  Device device() const { return device_; }
  /// The bytes are on `device` afterwards, for every tensor over them. Throws std::logic_error for somebody else's
  /// memory, and as allocate() does.
  void move_to(Device device);

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  bool owned_;  // came from the caching allocator
  std::shared_ptr<void> owner_;
};

}  // namespace tutti::tensor
