#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/ops.h>

namespace tutti::tensor {

const KernelTable& kernels(Device device) {
  if (device.kind == Device::Kind::Cuda) return cuda::kernel_table();
  return cpu::kernel_table();
}

}  // namespace tutti::tensor
