// The GPU's kernels, as functions. Private to tensor/.
//
// What differs from the CPU: an entry returns when its work is in the stream. A target outside the classes is told at
// the next wait (to(), item()), and the loss is NaN until then.
#pragma once

#include <tutti/tensor/kernel_list.h>

namespace tutti::tensor::cuda {

TUTTI_KERNELS(TUTTI_DECLARE_KERNEL)

}  // namespace tutti::tensor::cuda
