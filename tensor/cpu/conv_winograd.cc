#include <tutti/tensor/cpu/conv_winograd.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/winograd_pass.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

template <typename T>
void run(const WinogradPass<T>& pass, const WinogradWeights<T>& weights) {
  constexpr std::int64_t kSquares = 48;  // their sums take up to half a MiB
  const std::int64_t squares = pass.batch * winograd_squares(pass.vertical) * winograd_squares(pass.horizontal);
  const std::int64_t wanted = EvenParts((squares + kSquares - 1) / kSquares, num_threads()).parts * num_threads();
  const EvenParts groups(squares, (squares + wanted - 1) / wanted);
  parallel_for(groups.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    WinogradGroup<T> group(pass, weights, groups.size(0));
    for (std::int64_t g = begin; g < end; ++g) {
      group.compute(groups.first(g), groups.size(g));
    }
  });
}

// The products along one direction: over all positions, the taps that lie inside.
std::int64_t taps_inside(const ConvAxis& axis) {
  std::int64_t count = 0;
  for (const TapClass& same : forward_classes(axis)) {
    count += static_cast<std::int64_t>(same.taps.size() * same.places.size());
  }
  return count;
}

// Both sides are products of one image by channel read and channel computed, those of the direct path being the first.
bool wins(const ConvExtents& extents, std::int64_t squares) {
  constexpr std::int64_t kFewChannels = 16;
  if (!winograd_fits(extents) || std::min(extents.channels, extents.outputs) < kFewChannels) return false;
  constexpr std::int64_t kLargeWeights = 1 << 15;  // of a tap: transformed 4.5 MiB, which no near cache holds
  const std::int64_t for_weights = extents.channels * extents.outputs <= kLargeWeights ? 270 : 850;
  return taps_inside(extents.vertical) * taps_inside(extents.horizontal) >=
         kWinogradProducts * squares * 5 / 4 + for_weights;
}

// Of the gradient of the input.
ConvAxis transposed(ConvAxis axis) {
  std::swap(axis.input, axis.output);
  axis.padding = axis.kernel - 1 - axis.padding;
  return axis;
}

}  // namespace

bool winograd_fits(const ConvExtents& extents) {
  const auto fits = [](const ConvAxis& axis) {
    return axis.kernel == kWinogradKernel && axis.stride == 1 && axis.dilation == 1;
  };
  return fits(extents.vertical) && fits(extents.horizontal) && extents.groups == 1;
}

bool winograd_wins(const ConvExtents& extents) {
  return wins(extents, winograd_squares(extents.vertical) * winograd_squares(extents.horizontal));
}

bool winograd_wins_backward(const ConvExtents& extents) {
  return wins(extents,
              winograd_squares(transposed(extents.vertical)) * winograd_squares(transposed(extents.horizontal)));
}

void winograd_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                     bool relu) {
  with_float_type(y.dtype(), [&]<typename T>() {
    const WinogradPass<T> pass{.from = x.data<T>(),
                               .to = y.data<T>(),
                               .batch = extents.batch,
                               .vertical = extents.vertical,
                               .horizontal = extents.horizontal,
                               .depth = extents.channels,
                               .breadth = extents.outputs,
                               .bias = bias.defined() ? bias.data<T>() : nullptr,
                               .relu = relu,
                               .accumulate = false};
    const WinogradWeights<T> weights(pass.depth, pass.breadth, false, [&](T* memory, const WeightPart& part) {
      pack_outputs(memory, w.data<T>(), extents.weights(), part);
    });
    run(pass, weights);
  });
}

void winograd_conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                                    bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    const WinogradPass<T> pass{.from = dy.data<T>(),
                               .to = dx.data<T>(),
                               .batch = extents.batch,
                               .vertical = transposed(extents.vertical),
                               .horizontal = transposed(extents.horizontal),
                               .depth = extents.outputs,
                               .breadth = extents.channels,
                               .bias = nullptr,
                               .relu = false,
                               .accumulate = accumulate};
    const WinogradWeights<T> weights(pass.depth, pass.breadth, true, [&](T* memory, const WeightPart& part) {
      pack_channels(memory, w.data<T>(), extents.weights(), part);
    });
    run(pass, weights);
  });
}

}  // namespace tutti::tensor::cpu
