// What the passes of batch norm share on the device. Include from device code only.
#pragma once

#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/kernel_list.h>

namespace tutti::tensor::cuda {

/// The channels' numbers, one each.
template <typename T>
struct Channels {
  const T* mean;
  const T* factor;
  const T* bias;

  explicit Channels(const BatchNormPass& pass)
      : mean(address<T>(pass.mean)), factor(address<T>(pass.factor)), bias(address<T>(pass.bias)) {}
};

/// The expression of the forward pass, for it and for Mask::Again: contracted in both or the mask would flicker.
__device__ inline float normalised(float centred, float factor, float bias) { return fmaf(centred, factor, bias); }
__device__ inline double normalised(double centred, double factor, double bias) { return fma(centred, factor, bias); }

/// The gradient where relu let it pass. y is read for Mask::FromY only.
template <Mask kMask, typename T>
__device__ T masked(T grad, T centred, const T* y, T factor, T bias) {
  if constexpr (kMask == Mask::None) {
    return grad;
  } else if constexpr (kMask == Mask::FromY) {
    return *y <= T{0} ? T{0} : grad;
  } else {
    return normalised(centred, factor, bias) <= T{0} ? T{0} : grad;
  }
}

}  // namespace tutti::tensor::cuda
