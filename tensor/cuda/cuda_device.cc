// Answers about the GPU, and the functions of cuda.h that are one line. no_cuda/no_cuda.cc is linked instead when the
// toolkit was not found.
#include <cuda_runtime_api.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/memory.h>
#include <tutti/tensor/cuda/runtime.h>

#include <stdexcept>

namespace tutti::tensor {

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

bool cuda_available() { return cuda_device_count() > 0; }

std::string cuda_status() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return std::string("built with CUDA, but no GPU is usable: ") + cudaGetErrorString(error);
  }
  if (count == 0) return "built with CUDA, but this machine shows no GPU";
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return std::to_string(count) + " CUDA device(s)";
  return std::to_string(count) + " CUDA device(s), the first is " + properties.name;
}

namespace cuda {

void require(Device device) {
  static const int count = cuda_device_count();  // does not change while a process lives
  if (device.index < count) return;
  throw std::runtime_error("a tensor was asked for on " + name(device) + ", which this machine does not have (" +
                           cuda_status() + "); use device cpu" +
                           (count > 0 ? " or cuda:0 to cuda:" + std::to_string(count - 1) : ""));
}

void* allocate(std::size_t bytes, Device device) {
  require(device);
  return allocator(device.index).allocate(bytes, current_stream(device.index));
}

void deallocate(void* block, std::size_t, Device device) noexcept {
  allocator(device.index).deallocate(block, current_stream(device.index));
}

void synchronize(Device device) {
  require(device);
  wait("synchronize", device.index);
}

MemoryUse memory_use(Device device) {
  require(device);
  return allocator(device.index).use();
}

void trim(Device device) {
  require(device);
  allocator(device.index).trim();
}

}  // namespace cuda
}  // namespace tutti::tensor
