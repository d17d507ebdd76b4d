// Graph: a GPU's work, recorded once and given again as a whole: for models whose kernels are shorter than their
// launches (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-graphs). Without CUDA's headers; a build
// without CUDA links no_cuda/no_cuda.cc, where everything refuses.
//
// A graph holds addresses. The tensors that the work made for itself stay the graph's: their memory goes to nobody else
// while it lives. Tensors from outside must stay where they are, for as long as the graph is launched.
// Ownership: value-like handle, not copied. Thread-safety: none. Errors: std::runtime_error with CUDA's reason.
#pragma once

#include <tutti/tensor/device.h>

#include <functional>
#include <memory>

namespace tutti::tensor::cuda {

class Graph {
 public:
  /// Runs `work` on the calling thread, whose operations on `device` are recorded instead of done. They must be the
  /// device's alone: reading a result, or sending the host's pageable memory, is refused by CUDA. What `work` throws is
  /// passed on.
  Graph(Device device, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Puts the recorded work into the calling thread's current stream.
  void launch();

  /// Whether anything may be recorded: not where TUTTI_CUDA_SYNC waits for each operation, nor with
  /// TUTTI_CUDA_GRAPHS=0.
  static bool allowed();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::tensor::cuda
