// Operation: one entry of the kernel table at work. Makes the tensors' device current, knows the stream, and launches.
//
//   void negate(Tensor& out, const Tensor& a) {
//     const Operation op("negate", out);
//     op.launch(op.over(out.numel()), negate_kernel<float>, address<float>(out), address<float>(a), out.numel());
//   }
//
// A launch that fails throws with the operation's name. Launching over zero elements does nothing.
#pragma once

#include <cuda_runtime.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/kernel_list.h>

#include <algorithm>
#include <cstdint>

namespace tutti::tensor::cuda {

inline constexpr unsigned kThreads = 256;  // of a block, unless a kernel says otherwise

struct Grid {
  dim3 blocks;
  dim3 threads = kThreads;
  std::size_t shared_bytes = 0;
};

class Operation {
 public:
  /// `operation` is a literal. `on`: a tensor of the device.
  Operation(const char* operation, const Tensor& on) : Operation(operation, on.device()) {}
  Operation(const char* operation, Device device)
      : operation_(operation), device_(device.index), stream_(current_stream(device_)) {
    use_device(device_);
  }

  const char* name() const { return operation_; }
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }

  /// Enough blocks for a loop over `count` elements with first_index() and index_step(): every element has a thread of
  /// its own, or, where they are many, each processor as many blocks as it can hold.
  Grid over(std::int64_t count) const {
    const std::int64_t most = std::int64_t{8} * multiprocessors(device_) * 2;
    return {.blocks = static_cast<unsigned>(std::min<std::int64_t>((count + kThreads - 1) / kThreads, most))};
  }

  template <typename... Parameters, typename... Arguments>
  void launch(const Grid& grid, void (*kernel)(Parameters...), Arguments&&... arguments) const {
    if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
    cudaLaunchConfig_t config{};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = grid.shared_bytes;
    config.stream = stream_;
    note(operation_, device_);
    launched(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), operation_, device_, stream_);
  }

  void check(cudaError_t status) const { cuda::check(status, operation_, device_); }

 private:
  const char* operation_;
  int device_;
  cudaStream_t stream_;
};

/// A tensor's first element for kernels. Throws unless T is the element type.
template <typename T>
T* address(Tensor& tensor) {
  if (tensor.dtype() != DTypeOf<T>::value) {
    throw std::invalid_argument("a kernel for " + std::string(name(DTypeOf<T>::value)) + " was given a " +
                                std::string(name(tensor.dtype())) + " tensor of shape " + tensor.shape().to_string());
  }
  return static_cast<T*>(tensor.raw());
}
template <typename T>
const T* address(const Tensor& tensor) {
  return address<T>(const_cast<Tensor&>(tensor));
}
/// The same; null for an undefined tensor.
template <typename T>
const T* address_or_null(const Tensor& tensor) {
  return tensor.defined() ? address<T>(tensor) : nullptr;
}

/// Whether Pack<T> may be used at all of these addresses.
template <typename... Pointers>
bool all_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace tutti::tensor::cuda
