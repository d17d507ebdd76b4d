// Answers about the GPU, from the CUDA runtime. Linked instead of no_cuda/no_cuda.cc when the toolkit was found.
#include <cuda_runtime_api.h>
#include <tutti/tensor/cuda/cuda.h>

#include <stdexcept>

namespace tutti::tensor {

int cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool cuda_available() { return cuda_device_count() > 0; }

std::string cuda_status() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("built with CUDA, but no GPU is usable: ") + cudaGetErrorString(error);
  if (count == 0) return "built with CUDA, but this machine shows no GPU";
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return std::to_string(count) + " CUDA device(s)";
  return std::to_string(count) + " CUDA device(s), the first is " + properties.name;
}

void refuse_cuda_tensor(Device device) {
  throw std::runtime_error("a tensor was asked for on " + name(device) +
                           ", but this version computes on the CPU only (" + cuda_status() + "); use device cpu");
}

}  // namespace tutti::tensor
