#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/cuda_kernels.h>

namespace tutti::tensor::cuda {

const KernelTable& kernel_table() {
  static constexpr KernelTable kTable = {TUTTI_KERNELS(TUTTI_KERNEL_ENTRY)};
  return kTable;
}

}  // namespace tutti::tensor::cuda
