#include <tutti/tensor/allocator.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/storage.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Device device) {
  if (device.kind == Device::Kind::Cuda) refuse_cuda_tensor(device);
  void* data = nullptr;
  try {
    data = cpu_allocator().allocate(bytes);
    return std::make_shared<Storage>(data, bytes, device, true, nullptr);
  } catch (const std::bad_alloc&) {
    cpu_allocator().deallocate(data, bytes);
    throw std::runtime_error("out of memory: a tensor of " + std::to_string(bytes) + " bytes does not fit on " +
                             name(device) + " (" + std::to_string(cpu_allocator().live_bytes()) +
                             " bytes are in use by tensors); use a smaller batch or model");
  }
}

std::shared_ptr<Storage> Storage::over(void* memory, std::size_t bytes, std::shared_ptr<void> owner, Device device) {
  if (device.kind == Device::Kind::Cuda) refuse_cuda_tensor(device);
  return std::make_shared<Storage>(memory, bytes, device, false, std::move(owner));
}

void Storage::move_to(Device device) {
  if (device == device_) return;
  if (device.kind == Device::Kind::Cuda) refuse_cuda_tensor(device);
  if (!owned_) {
    throw std::logic_error("memory on " + name(device_) + " cannot move to " + name(device) +
                           ": it belongs to somebody else (a gradient bucket, say); place the model first");
  }
  device_ = device;  // all that tells one CPU device from another
}

Storage::Storage(void* data, std::size_t bytes, Device device, bool owned, std::shared_ptr<void> owner)
    : data_(data), bytes_(bytes), device_(device), owned_(owned), owner_(std::move(owner)) {}

Storage::~Storage() {
  if (owned_) cpu_allocator().deallocate(data_, bytes_);
}

}  // namespace tutti::tensor
