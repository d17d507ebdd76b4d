// What the rest of tensor asks of CUDA, beside the questions in device.h. Exactly one of two translation units answers:
// cuda/cuda_device.cc in a build with the CUDA Toolkit, no_cuda/no_cuda.cc in one without. Nobody else asks which.
#pragma once

#include <tutti/tensor/device.h>

namespace tutti::tensor {

/// Throws std::runtime_error: which device was asked for, why it cannot hold tensors, and what to use instead.
[[noreturn]] void refuse_cuda_tensor(Device device);

}  // namespace tutti::tensor
