// Batch norm's sums over the rows of x (M, C): mean and variance forward, two sums over the gradient backward.
//
// A block takes 32 channels and one part of the rows; a second kernel adds up the parts in their order. Sums are kept
// in double: a card of the kinds that we build for does half as many double as float operations, and these kernels wait
// for memory. Forward, x is seen from the first row's value, so that a large mean costs no digits.
#include <tutti/tensor/cuda/batch_norm.h>
#include <tutti/tensor/cuda/cuda_kernels.h>

#include <algorithm>

namespace tutti::tensor::cuda {
namespace {

constexpr int kLanes = 32;  // channels of a block
constexpr int kDown = 8;    // rows that a block reads at once
constexpr int kSumThreads = kLanes * kDown;

struct Rows {
  std::int64_t count;
  std::int64_t part;  // rows of a part
  int columns;
};

// Adds up what the rows of threads found; row 0 returns the totals.
__device__ void add_up(double& a, double& b) {
  __shared__ double shared[2][kDown][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int down = static_cast<int>(threadIdx.x) / kLanes;
  shared[0][down][lane] = a;
  shared[1][down][lane] = b;
  __syncthreads();
  if (down > 0) return;
  for (int i = 1; i < kDown; ++i) {
    a += shared[0][i][lane];
    b += shared[1][i][lane];
  }
}

// term(offset, channel, a, b) adds an element's two terms. sums is (parts, 2, columns).
template <typename F>
__device__ void sum_part(double* sums, const Rows& rows, F term) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int down = static_cast<int>(threadIdx.x) / kLanes;
  const int channel = static_cast<int>(blockIdx.x) * kLanes + lane;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * rows.part;
  const std::int64_t end = begin + rows.part < rows.count ? begin + rows.part : rows.count;
  double a = 0;
  double b = 0;
  if (channel < rows.columns) {
    for (std::int64_t row = begin + down; row < end; row += kDown) term(row * rows.columns + channel, channel, a, b);
  }
  add_up(a, b);
  if (down > 0 || channel >= rows.columns) return;
  double* const to = sums + static_cast<std::int64_t>(blockIdx.y) * 2 * rows.columns + channel;
  to[0] = a;
  to[rows.columns] = b;
}

template <typename T>
__global__ void __launch_bounds__(kSumThreads) statistics_parts(double* sums, const T* x, Rows rows) {
  sum_part(sums, rows, [=](std::int64_t at, int channel, double& a, double& b) {
    const double off = static_cast<double>(x[at]) - static_cast<double>(x[channel]);
    a += off;
    b += off * off;
  });
}

// Adds up the parts of a channel; true in the thread that then holds its totals.
__device__ bool total_of(const double* sums, int columns, int parts, int& channel, double& a, double& b) {
  const int down = static_cast<int>(threadIdx.x) / kLanes;
  channel = static_cast<int>(blockIdx.x) * kLanes + static_cast<int>(threadIdx.x) % kLanes;
  a = 0;
  b = 0;
  for (std::int64_t part = down; part < parts && channel < columns; part += kDown) {
    a += sums[2 * part * columns + channel];
    b += sums[(2 * part + 1) * columns + channel];
  }
  add_up(a, b);
  return down == 0 && channel < columns;
}

template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    finish_statistics(T* mean, T* variance, const double* sums, const T* x, Rows rows, int parts) {
  int channel = 0;
  double off = 0;
  double squares = 0;
  if (!total_of(sums, rows.columns, parts, channel, off, squares)) return;
  const double share = 1.0 / static_cast<double>(rows.count);
  const double found = (squares - off * off * share) * share;
  mean[channel] = static_cast<T>(static_cast<double>(x[channel]) + off * share);
  variance[channel] = static_cast<T>(found < 0 ? 0.0 : found);
}

template <Mask kMask, typename T>
__global__ void __launch_bounds__(kSumThreads)
    gradient_parts(double* sums, T* dz, const T* grad, const T* x, const T* y, Channels<T> channels, Rows rows) {
  sum_part(sums, rows, [=](std::int64_t at, int channel, double& a, double& b) {
    const T centred = x[at] - channels.mean[channel];
    const T passed = masked<kMask>(grad[at], centred, y + at, channels.factor[channel], channels.bias[channel]);
    if (dz != nullptr) dz[at] = passed;
    a += static_cast<double>(passed);
    b += static_cast<double>(passed) * static_cast<double>(centred);
  });
}

template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    finish_sums(T* sum_dz, T* sum_dzx, const double* sums, int columns, int parts) {
  int channel = 0;
  double a = 0;
  double b = 0;
  if (!total_of(sums, columns, parts, channel, a, b)) return;
  sum_dz[channel] = static_cast<T>(a);
  sum_dzx[channel] = static_cast<T>(b);
}

// About this many blocks are wanted; the parts depend on the shape only, so that the sums are the same on every card.
constexpr std::int64_t kWantedBlocks = 1056;
constexpr std::int64_t kShortestPart = 16 * kDown;

struct Cuts {
  Rows rows;
  unsigned strips;
  unsigned parts;

  explicit Cuts(const Tensor& x) {
    const std::int64_t count = x.shape()[0];
    const auto columns = static_cast<int>(x.shape()[1]);
    strips = static_cast<unsigned>((columns + kLanes - 1) / kLanes);
    const std::int64_t wanted = std::max<std::int64_t>(1, kWantedBlocks / std::max(1u, strips));
    const std::int64_t part = std::max(kShortestPart, (count + wanted - 1) / wanted);
    parts = static_cast<unsigned>((count + part - 1) / part);
    rows = {.count = count, .part = part, .columns = columns};
  }

  Grid grid() const { return {.blocks = dim3(strips, parts), .threads = kSumThreads}; }
  Grid finish() const { return {.blocks = dim3(strips), .threads = kSumThreads}; }
  Tensor sums(Device device) const { return Tensor::empty({parts, 2, rows.columns}, DType::Float64, device); }
};

}  // namespace

void batch_norm_statistics(Tensor& mean, Tensor& variance, const Tensor& x) {
  const Operation op("batch_norm_statistics", x);
  const Cuts cuts(x);
  Tensor sums = cuts.sums(x.device());
  with_float_type(x.dtype(), [&]<typename T>() {
    op.launch(cuts.grid(), statistics_parts<T>, address<double>(sums), address<T>(x), cuts.rows);
    op.launch(cuts.finish(), finish_statistics<T>, address<T>(mean), address<T>(variance), address<double>(sums),
              address<T>(x), cuts.rows, static_cast<int>(cuts.parts));
  });
}

void batch_norm_sums(Tensor& sum_dz, Tensor& sum_dzx, Tensor& dz, const BatchNormPass& pass, const Tensor& grad,
                     const Tensor& y) {
  const Operation op("batch_norm_sums", grad);
  const Cuts cuts(pass.x);
  Tensor sums = cuts.sums(grad.device());
  with_float_type(grad.dtype(), [&]<typename T>() {
    const Mask mask = mask_of(pass, y);
    const T* const result = address<T>(mask == Mask::FromY ? y : pass.x);  // x: not read
    T* const written = dz.defined() ? address<T>(dz) : nullptr;
    with_mask(mask, [&]<Mask kMask>() {
      op.launch(cuts.grid(), gradient_parts<kMask, T>, address<double>(sums), written, address<T>(grad),
                address<T>(pass.x), result, Channels<T>(pass), cuts.rows);
    });
    op.launch(cuts.finish(), finish_sums<T>, address<T>(sum_dz), address<T>(sum_dzx), address<double>(sums),
              cuts.rows.columns, static_cast<int>(cuts.parts));
  });
}

}  // namespace tutti::tensor::cuda
