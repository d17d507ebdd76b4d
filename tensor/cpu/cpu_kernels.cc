#include <tutti/tensor/cpu/cpu_kernels.h>

namespace tutti::tensor::cpu {

const KernelTable& kernel_table() {
  static constexpr KernelTable kTable = [] {
    KernelTable table = {TUTTI_KERNELS(TUTTI_KERNEL_ENTRY)};
    table.batch_norm_moments = batch_norm_moments;
    return table;
  }();
  return kTable;
}

}  // namespace tutti::tensor::cpu
