// The functions of cuDNN that cudnn.cc calls, under their own names, and the handle that they are called with. Private
// to tensor/cuda.
#pragma once

#include <cudnn.h>

#include <mutex>
#include <string>

#define TUTTI_CUDNN_FUNCTIONS(F)                   \
  F(cudnnConvolutionBackwardData)                  \
  F(cudnnConvolutionBackwardFilter)                \
  F(cudnnConvolutionBiasActivationForward)         \
  F(cudnnConvolutionForward)                       \
  F(cudnnCreate)                                   \
  F(cudnnCreateActivationDescriptor)               \
  F(cudnnCreateConvolutionDescriptor)              \
  F(cudnnCreateFilterDescriptor)                   \
  F(cudnnCreateTensorDescriptor)                   \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  F(cudnnGetConvolutionForwardAlgorithm_v7)        \
  F(cudnnGetErrorString)                           \
  F(cudnnGetVersion)                               \
  F(cudnnSetActivationDescriptor)                  \
  F(cudnnSetConvolution2dDescriptor)               \
  F(cudnnSetConvolutionGroupCount)                 \
  F(cudnnSetConvolutionMathType)                   \
  F(cudnnSetFilter4dDescriptor)                    \
  F(cudnnSetStream)                                \
  F(cudnnSetTensor4dDescriptor)

namespace tutti::tensor::cuda {

struct Cudnn {
#define TUTTI_DECLARE(function) decltype(&::function) function;
  TUTTI_CUDNN_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE
};

/// Null when the library cannot be loaded; cudnn_complaint() then says why.
const Cudnn* cudnn();
const std::string& cudnn_complaint();

/// cuDNN on one device, bound to the calling thread's current stream; nobody else enters it while this lives. There is
/// one handle for each device; it lives as long as the process.
class CudnnSession {
 public:
  explicit CudnnSession(int device);
  cudnnHandle_t handle() const { return handle_; }

 private:
  std::unique_lock<std::mutex> lock_;
  cudnnHandle_t handle_ = nullptr;
};

/// Throws std::runtime_error: the call, the device and cuDNN's own reason.
void check_cudnn(cudnnStatus_t status, const char* call, int device);

}  // namespace tutti::tensor::cuda
