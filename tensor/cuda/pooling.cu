// Pooling over (N, H, W, C), a thread for each element that is written. Backward, a pixel gathers from the windows that
// cover it, in their order: no atomic additions, and the same bits as on the CPU.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/indices.h>
#include <tutti/tensor/cuda/pool_windows.h>

namespace tutti::tensor::cuda {
namespace {

// An element of (N, rows, columns, channels).
struct PoolPlace {
  std::int64_t image;
  int row;
  int column;
  int channel;

  __device__ PoolPlace(std::int64_t i, int rows, int columns, int channels) {
    i = split(i, channels, channel);
    i = split(i, columns, column);
    image = split(i, rows, row);
  }
};

// NaN beats every number, and a later NaN an earlier one, as in PyTorch.
template <typename T, typename Choice>
__global__ void __launch_bounds__(kThreads) max_of_windows(T* y, Choice* choice, const T* x, PoolAxis rows,
                                                           PoolAxis columns, int channels, std::int64_t count) {
  const std::int64_t i = first_index();
  if (i >= count) return;
  const PoolPlace at(i, rows.count, columns.count, channels);
  const PoolWindow down = rows.windows[at.row];
  const PoolWindow along = columns.windows[at.column];
  const T* image = x + at.image * rows.extent * columns.extent * channels + at.channel;
  T best = image[(down.begin * columns.extent + along.begin) * channels];
  std::int64_t chosen = 0;
  std::int64_t number = 0;
  for (std::int64_t row = down.begin; row < down.end; ++row) {
    for (std::int64_t column = along.begin; column < along.end; ++column, ++number) {
      const T value = image[(row * columns.extent + column) * channels];
      if (!(value > best) && value == value) continue;
      best = value;
      chosen = number;
    }
  }
  y[i] = best;
  choice[i] = static_cast<Choice>(chosen);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mean_of_windows(T* y, const T* x, PoolAxis rows, PoolAxis columns, int channels, std::int64_t count) {
  const std::int64_t i = first_index();
  if (i >= count) return;
  const PoolPlace at(i, rows.count, columns.count, channels);
  const PoolWindow down = rows.windows[at.row];
  const PoolWindow along = columns.windows[at.column];
  const T* image = x + at.image * rows.extent * columns.extent * channels + at.channel;
  T total{0};
  for (std::int64_t row = down.begin; row < down.end; ++row) {
    T line{0};  // of its own: fewer additions behind each rounding
    for (std::int64_t column = along.begin; column < along.end; ++column) {
      line += image[(row * columns.extent + column) * channels];
    }
    total += line;
  }
  y[i] = total * (T{1} / static_cast<T>(down.divisor * along.divisor));
}

// dx[pixel] (+)= sum of share(offset in y, row window, column window, pixel's row and column) over the windows that
// cover it.
template <typename T, typename F>
__device__ void gather_windows(T* dx, const PoolAxis& rows, const PoolAxis& columns, int channels, std::int64_t count,
                               bool accumulate, F share) {
  const std::int64_t i = first_index();
  if (i >= count) return;
  const PoolPlace at(i, rows.extent, columns.extent, channels);
  T total = accumulate ? dx[i] : T{0};
  for (int row = rows.first_over[at.row]; row < rows.end_over[at.row]; ++row) {
    for (int column = columns.first_over[at.column]; column < columns.end_over[at.column]; ++column) {
      const std::int64_t out = ((at.image * rows.count + row) * columns.count + column) * channels + at.channel;
      total += share(out, rows.windows[row], columns.windows[column], at.row, at.column);
    }
  }
  dx[i] = total;
}

template <typename T, typename Choice>
__global__ void __launch_bounds__(kThreads)
    max_gradient(T* dx, const T* grad, const Choice* choice, PoolAxis rows, PoolAxis columns, int channels,
                 std::int64_t count, bool accumulate) {
  gather_windows(dx, rows, columns, channels, count, accumulate,
                 [=](std::int64_t out, const PoolWindow& down, const PoolWindow& along, int row, int column) {
                   const std::int64_t here = (row - down.begin) * (along.end - along.begin) + column - along.begin;
                   return choice[out] == static_cast<Choice>(here) ? grad[out] : T{0};
                 });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) mean_gradient(T* dx, const T* grad, PoolAxis rows, PoolAxis columns,
                                                          int channels, std::int64_t count, bool accumulate) {
  gather_windows(dx, rows, columns, channels, count, accumulate,
                 [=](std::int64_t out, const PoolWindow& down, const PoolWindow& along, int, int) {
                   return T{1} / static_cast<T>(down.divisor * along.divisor) * grad[out];
                 });
}

template <typename F>
void with_choice_type(DType dtype, F&& body) {
  if (dtype == DType::UInt8) return body.template operator()<std::uint8_t>();
  body.template operator()<std::int64_t>();
}

using Windows = std::span<const PoolWindow>;

int channels_of(const Tensor& image) { return static_cast<int>(image.shape()[3]); }

}  // namespace

void max_pool(Tensor& y, Tensor& choice, const Tensor& x, Windows rows, Windows columns) {
  const Operation op("max_pool", y);
  const PoolAxis down = pool_axis(rows, x.shape()[1], x.device());
  const PoolAxis along = pool_axis(columns, x.shape()[2], x.device());
  with_float_type(x.dtype(), [&]<typename T>() {
    with_choice_type(choice.dtype(), [&]<typename Choice>() {
      op.launch(thread_each(y.numel()), max_of_windows<T, Choice>, address<T>(y), address<Choice>(choice),
                address<T>(x), down, along, channels_of(x), y.numel());
    });
  });
}

void max_pool_backward(Tensor& dx, const Tensor& grad, const Tensor& choice, Windows rows, Windows columns,
                       bool accumulate) {
  const Operation op("max_pool_backward", dx);
  const PoolAxis down = pool_axis(rows, dx.shape()[1], dx.device());
  const PoolAxis along = pool_axis(columns, dx.shape()[2], dx.device());
  with_float_type(dx.dtype(), [&]<typename T>() {
    with_choice_type(choice.dtype(), [&]<typename Choice>() {
      op.launch(thread_each(dx.numel()), max_gradient<T, Choice>, address<T>(dx), address<T>(grad),
                address<Choice>(choice), down, along, channels_of(dx), dx.numel(), accumulate);
    });
  });
}

void mean_pool(Tensor& y, const Tensor& x, Windows rows, Windows columns) {
  const Operation op("mean_pool", y);
  const PoolAxis down = pool_axis(rows, x.shape()[1], x.device());
  const PoolAxis along = pool_axis(columns, x.shape()[2], x.device());
  with_float_type(x.dtype(), [&]<typename T>() {
    op.launch(thread_each(y.numel()), mean_of_windows<T>, address<T>(y), address<T>(x), down, along, channels_of(x),
              y.numel());
  });
}

void mean_pool_backward(Tensor& dx, const Tensor& grad, Windows rows, Windows columns, bool accumulate) {
  const Operation op("mean_pool_backward", dx);
  const PoolAxis down = pool_axis(rows, dx.shape()[1], dx.device());
  const PoolAxis along = pool_axis(columns, dx.shape()[2], dx.device());
  with_float_type(dx.dtype(), [&]<typename T>() {
    op.launch(thread_each(dx.numel()), mean_gradient<T>, address<T>(dx), address<T>(grad), down, along, channels_of(dx),
              dx.numel(), accumulate);
  });
}

}  // namespace tutti::tensor::cuda
