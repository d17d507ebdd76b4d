#include <tutti/tensor/autograd/joined_statistics.h>

#include <stdexcept>
#include <string>

namespace tutti::tensor {
namespace {

// The parts of a row that is sent, on the CPU: `first`, then a (C), then b (C).
Tensor packed(double first, const Tensor& a, const Tensor& b) {
  const std::int64_t channels = a.numel();
  Tensor row = Tensor::empty({1 + 2 * channels}, DType::Float64);
  row.data<double>()[0] = first;
  row.narrow(0, 1, channels).copy_from(a.to(DType::Float64).to(Device{}));
  row.narrow(0, 1 + channels, channels).copy_from(b.to(DType::Float64).to(Device{}));
  return row;
}

Tensor gathered(BatchHolders& holders, const Tensor& mine) {
  Tensor all = holders.gather(mine);
  if (all.rank() != 2 || all.shape()[1] != mine.numel() || all.dtype() != DType::Float64 || !all.is_contiguous()) {
    throw std::logic_error("batch_norm: the batch's holders gave " + all.shape().to_string() +
                           " numbers, expected float64 (holders, " + std::to_string(mine.numel()) + ")");
  }
  return all;
}

// `a` and `b` become their sums over all holders; returns the sum of `count`.
double join(BatchHolders& holders, double count, Tensor& a, Tensor& b) {
  const Tensor all = gathered(holders, packed(count, a, b));
  Tensor sums = Tensor::zeros({all.shape()[1]}, DType::Float64);
  double* const to = sums.data<double>();
  for (std::int64_t i = 0; i < all.numel(); ++i) to[i % sums.numel()] += all.data<double>()[i];
  a.copy_from(sums.narrow(0, 1, a.numel()).to(a.dtype()));
  b.copy_from(sums.narrow(0, 1 + a.numel(), a.numel()).to(b.dtype()));
  return to[0];
}

}  // namespace

std::int64_t join_statistics(BatchHolders& holders, std::int64_t rows, Tensor& mean, Tensor& variance) {
  if (rows == 0) {
    mean.fill(0);
    variance.fill(0);
  }
  const Tensor all = gathered(holders, packed(static_cast<double>(rows), mean, variance));
  const std::int64_t channels = mean.numel();
  Tensor joined = Tensor::zeros({2, channels}, DType::Float64);
  double* const to_mean = joined.data<double>();
  double* const to_squares = to_mean + channels;  // of the deviations from the mean
  double count = 0;
  for (std::int64_t holder = 0; holder < all.shape()[0]; ++holder) {
    const double* const row = all.data<double>() + holder * all.shape()[1];
    const double more = row[0];
    if (more == 0) continue;
    const double share = more / (count + more);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double delta = row[1 + c] - to_mean[c];
      to_mean[c] += delta * share;
      to_squares[c] += row[1 + channels + c] * more + delta * delta * share * count;
    }
    count += more;
  }
  for (std::int64_t c = 0; c < channels && count > 0; ++c) to_squares[c] /= count;
  mean.copy_from(joined.narrow(0, 0, 1).reshape({channels}).to(mean.dtype()));
  variance.copy_from(joined.narrow(0, 1, 1).reshape({channels}).to(variance.dtype()));
  return static_cast<std::int64_t>(count);
}

std::int64_t join_moments(BatchHolders& holders, std::int64_t rows, const Tensor& sums, const Tensor& centre,
                          Tensor& mean, Tensor& variance) {
  const std::int64_t channels = mean.numel();
  Tensor high = sums.narrow(0, 0, 2).reshape({2 * channels});
  Tensor low = sums.narrow(0, 2, 2).reshape({2 * channels});
  const double count = join(holders, static_cast<double>(rows), high, low);
  const Tensor centres = centre.to(DType::Float64);
  Tensor joined = Tensor::zeros({2, channels}, DType::Float64);
  double* const to_mean = joined.data<double>();
  double* const to_variance = to_mean + channels;
  for (std::int64_t c = 0; c < channels && count > 0; ++c) {
    const double off = (high.data<double>()[c] + low.data<double>()[c]) / count;
    const double square = (high.data<double>()[channels + c] + low.data<double>()[channels + c]) / count;
    to_mean[c] = centres.data<double>()[c] + off;
    to_variance[c] = square - off * off;
    if (to_variance[c] < 0) to_variance[c] = 0;
  }
  mean.copy_from(joined.narrow(0, 0, 1).reshape({channels}).to(mean.dtype()));
  variance.copy_from(joined.narrow(0, 1, 1).reshape({channels}).to(variance.dtype()));
  return static_cast<std::int64_t>(count);
}

void join_sums(BatchHolders& holders, Tensor& a, Tensor& b) { join(holders, 0, a, b); }

}  // namespace tutti::tensor
