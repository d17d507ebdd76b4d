#include <tutti/tensor/allocator.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/storage.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

void* allocate_bytes(std::size_t bytes, Device device) {
  if (device.kind == Device::Kind::Cuda) return cuda::allocate(bytes, device);
  try {
    return cpu_allocator().allocate(bytes);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error("out of memory: a tensor of " + std::to_string(bytes) + " bytes does not fit on " +
                             name(device) + " (" + std::to_string(cpu_allocator().live_bytes()) +
                             " bytes are in use by tensors); use a smaller batch or model");
  }
}

void deallocate_bytes(void* data, std::size_t bytes, Device device) noexcept {
  if (device.kind == Device::Kind::Cuda) return cuda::deallocate(data, bytes, device);
  cpu_allocator().deallocate(data, bytes);
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Device device) {
  void* const data = allocate_bytes(bytes, device);
  try {
    return std::make_shared<Storage>(data, bytes, device, true, nullptr);
  } catch (...) {
    deallocate_bytes(data, bytes, device);
    throw;
  }
}

std::shared_ptr<Storage> Storage::over(void* memory, std::size_t bytes, std::shared_ptr<void> owner, Device device) {
  if (device.kind == Device::Kind::Cuda) cuda::require(device);
  return std::make_shared<Storage>(memory, bytes, device, false, std::move(owner));
}

void Storage::move_to(Device device) {
  if (device == device_) return;
  if (device.kind == Device::Kind::Cuda) cuda::require(device);
  if (!owned_) {
    throw std::logic_error("memory on " + name(device_) + " cannot move to " + name(device) +
                           ": it belongs to somebody else (a gradient bucket, say); place the model first");
  }
  const Device from = device_;
  device_ = device;
  if (from.kind == Device::Kind::Cpu && device.kind == Device::Kind::Cpu) return;  // a label is all that differs
  void* const before = data_;
  try {
    data_ = allocate_bytes(bytes_, device);
    cuda::transfer_bytes(data_, device, before, from, bytes_);
  } catch (...) {
    if (data_ != before) deallocate_bytes(data_, bytes_, device);
    data_ = before;
    device_ = from;
    throw;
  }
  deallocate_bytes(before, bytes_, from);
}

Storage::Storage(void* data, std::size_t bytes, Device device, bool owned, std::shared_ptr<void> owner)
    : data_(data), bytes_(bytes), device_(device), owned_(owned), owner_(std::move(owner)) {}

Storage::~Storage() {
  if (owned_) deallocate_bytes(data_, bytes_, device_);
}

}  // namespace tutti::tensor
