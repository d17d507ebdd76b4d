// Convolution weights as our own kernels read them, and back: tensors of a few megabytes at most, so every thread
// gathers what it writes.
#include <tutti/tensor/cuda/conv_gather.h>
#include <tutti/tensor/cuda/indices.h>
#include <tutti/tensor/cuda/launch.h>

namespace tutti::tensor::cuda {
namespace {

struct WeightExtents {
  int groups;
  int taps;
  int channels;  // of a group
  int outputs;

  // Where (group, output, channel, tap) lies in w (O, C / G, KH, KW).
  __device__ std::int64_t at(int group, int output, int channel, int tap) const {
    return (static_cast<std::int64_t>(group * outputs + output) * channels + channel) * taps + tap;
  }
};

template <typename T>
__global__ void pack_weights(T* out, const T* w, WeightExtents extents, bool forward, int padded) {
  const int depth = forward ? extents.channels : extents.outputs;
  const int breadth = forward ? extents.outputs : extents.channels;
  std::int64_t i = first_index();
  if (i >= static_cast<std::int64_t>(extents.groups) * extents.taps * depth * padded) return;
  T* const to = out + i;
  int column = 0;
  int row = 0;
  int tap = 0;
  i = split(i, padded, column);
  i = split(i, depth, row);
  const auto group = static_cast<int>(split(i, extents.taps, tap));
  T value{0};
  if (column < breadth) {
    value = w[forward ? extents.at(group, column, row, tap) : extents.at(group, row, column, tap)];
  }
  *to = value;
}

// sums (parts; group, tap, channel, output)
template <typename T>
__global__ void add_parts(T* dw, const T* sums, WeightExtents extents, int parts, bool accumulate) {
  const std::int64_t first = first_index();
  const std::int64_t count =
      static_cast<std::int64_t>(extents.groups) * extents.taps * extents.channels * extents.outputs;
  if (first >= count) return;
  int output = 0;
  int channel = 0;
  int tap = 0;
  std::int64_t i = split(first, extents.outputs, output);
  i = split(i, extents.channels, channel);
  const auto group = static_cast<int>(split(i, extents.taps, tap));
  T total{0};
  for (int part = 0; part < parts; ++part) total += sums[part * count + first];
  T* const to = dw + extents.at(group, output, channel, tap);
  *to = accumulate ? *to + total : total;
}

WeightExtents weight_extents(const ConvExtents& extents) {
  return {.groups = extents.groups, .taps = extents.taps(), .channels = extents.channels, .outputs = extents.outputs};
}

}  // namespace

Tensor packed_weights(const Tensor& w, const ConvExtents& extents, bool forward) {
  const int depth = forward ? extents.channels : extents.outputs;
  const int padded = ((forward ? extents.outputs : extents.channels) + 3) / 4 * 4;
  Tensor packed = Tensor::empty({extents.groups, extents.taps(), depth, padded}, w.dtype(), w.device());
  const Operation op("conv2d (weights)", w);
  with_float_type(w.dtype(), [&]<typename T>() {
    op.launch(thread_each(packed.numel()), pack_weights<T>, address<T>(packed), address<T>(w), weight_extents(extents),
              forward, padded);
  });
  return packed;
}

void add_weight_parts(Tensor& dw, const Tensor& sums, const ConvExtents& extents, bool accumulate) {
  const Operation op("conv2d_weight_gradient (parts)", dw);
  with_float_type(dw.dtype(), [&]<typename T>() {
    op.launch(thread_each(dw.numel()), add_parts<T>, address<T>(dw), address<T>(sums), weight_extents(extents),
              static_cast<int>(sums.shape()[0]), accumulate);
  });
}

}  // namespace tutti::tensor::cuda
