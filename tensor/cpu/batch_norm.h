// What the passes of batch norm share: the channels' numbers and expressions. Private to tensor/cpu.
#pragma once

#include <tutti/tensor/kernel_list.h>

namespace tutti::tensor::cpu {

template <typename T>
struct Channels {
  const T* mean;
  const T* factor;
  const T* bias;

  explicit Channels(const BatchNormPass& pass)
      : mean(pass.mean.data<T>()), factor(pass.factor.data<T>()), bias(pass.bias.data<T>()) {}
};

/// The expression of the forward pass, for it and for Mask::Again.
template <typename T>
T normalised(T centred, T factor, T bias) {
  return centred * factor + bias;
}

/// The gradient where relu let it pass. y is read for Mask::FromY only.
template <Mask kMask, typename T>
T masked(T grad, T centred, const T* y, T factor, T bias) {
  if constexpr (kMask == Mask::None) {
    return grad;
  } else if constexpr (kMask == Mask::FromY) {
    return *y <= T{0} ? T{0} : grad;
  } else {
    return normalised(centred, factor, bias) <= T{0} ? T{0} : grad;
  }
}

}  // namespace tutti::tensor::cpu
