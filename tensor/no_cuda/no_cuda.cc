// The twin of cuda/cuda_device.cc for a build without CUDA.
#include <tutti/tensor/cuda/cuda.h>

#include <stdexcept>

namespace tutti::tensor {

bool cuda_available() { return false; }

int cuda_device_count() { return 0; }

std::string cuda_status() {
  return "built without CUDA (TUTTI_CUDA=OFF, or AUTO and no CUDA Toolkit was found at configure time)";
}

void refuse_cuda_tensor(Device device) {
  throw std::runtime_error("a tensor was asked for on " + name(device) +
                           ", but this version computes on the CPU only (" + cuda_status() + "); use device cpu");
}

}  // namespace tutti::tensor
