// Softmax over the last axis and the losses made of it.
//
// Every row is shifted by its maximum before exp, so nothing overflows. Eigen's exp works on 16 floats at a time, so it
// runs over the whole matrix at once: rows may be only 10 long.
#include <tutti/tensor/cpu/cpu_kernels.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>

namespace tutti::tensor::cpu {
namespace {

template <typename T>
using Flat = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>, Eigen::Unaligned>;

template <typename T>
T row_max(const T* row, std::int64_t columns) {
  T largest = row[0];
  for (std::int64_t c = 1; c < columns; ++c) largest = std::max(largest, row[c]);
  return largest;
}

template <typename T>
T row_sum(const T* row, std::int64_t columns) {
  T total = 0;
  for (std::int64_t c = 0; c < columns; ++c) total += row[c];
  return total;
}

// out = x - max(x) per row
template <typename T>
void shift_rows(T* out, const T* x, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T largest = row_max(x + r * columns, columns);
    for (std::int64_t c = 0; c < columns; ++c) out[r * columns + c] = x[r * columns + c] - largest;
  }
}

template <typename T>
void check_targets(const std::int64_t* targets, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (targets[r] < 0 || targets[r] >= columns) {
      throw std::invalid_argument("cross_entropy: target " + std::to_string(targets[r]) + " in row " +
                                  std::to_string(r) + " is outside [0, " + std::to_string(columns) +
                                  "), the classes of the logits");
    }
  }
}

}  // namespace

void log_softmax(Tensor& y, const Tensor& x) {
  with_float_type(y.dtype(), [&]<typename T>() {
    const std::int64_t rows = x.shape()[0];
    const std::int64_t columns = x.shape()[1];
    if (rows * columns == 0) return;
    T* out = y.data<T>();
    shift_rows(out, x.data<T>(), rows, columns);
    Tensor scratch = Tensor::empty(x.shape(), x.dtype());
    T* exponentials = scratch.data<T>();
    Flat<T>(exponentials, rows * columns) = Flat<T>(out, rows * columns).exp();
    for (std::int64_t r = 0; r < rows; ++r) {
      const T log_sum = std::log(row_sum(exponentials + r * columns, columns));
      for (std::int64_t c = 0; c < columns; ++c) out[r * columns + c] -= log_sum;
    }
  });
}

// dx = grad - softmax(x) * sum(grad), with softmax(x) = exp(y)
void log_softmax_backward(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    const std::int64_t rows = y.shape()[0];
    const std::int64_t columns = y.shape()[1];
    const T* g = grad.data<T>();
    const T* logs = y.data<T>();
    T* out = dx.data<T>();
    for (std::int64_t r = 0; r < rows; ++r) {
      const T total = row_sum(g + r * columns, columns);
      for (std::int64_t c = r * columns; c < (r + 1) * columns; ++c) {
        const T value = g[c] - std::exp(logs[c]) * total;
        out[c] = accumulate ? out[c] + value : value;
      }
    }
  });
}

void cross_entropy(Tensor& loss, Tensor& probabilities, const Tensor& logits, const Tensor& targets, double factor) {
  with_float_type(logits.dtype(), [&]<typename T>() {
    const std::int64_t rows = logits.shape()[0];
    const std::int64_t columns = logits.shape()[1];
    const std::int64_t* target = targets.data<std::int64_t>();
    check_targets<T>(target, rows, columns);
    T* p = probabilities.data<T>();
    const T* x = logits.data<T>();
    Flat<T> all(p, rows * columns);
    if (rows > 0) shift_rows(p, x, rows, columns);
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r) total -= static_cast<double>(p[r * columns + target[r]]);
    all = all.exp();
    for (std::int64_t r = 0; r < rows; ++r) {
      T* row = p + r * columns;
      const T denominator = row_sum(row, columns);
      total += static_cast<double>(std::log(denominator));
      const T inverse = T{1} / denominator;
      for (std::int64_t c = 0; c < columns; ++c) row[c] *= inverse;
    }
    *loss.data<T>() = static_cast<T>(factor * total);
  });
}

// dlogits = grad * factor * (probabilities - one_hot(targets))
void cross_entropy_backward(Tensor& dlogits, const Tensor& probabilities, const Tensor& targets, const Tensor& grad,
                            double factor, bool accumulate) {
  scale(dlogits, probabilities, factor * grad.item(), accumulate);
  with_float_type(dlogits.dtype(), [&]<typename T>() {
    const std::int64_t rows = dlogits.shape()[0];
    const std::int64_t columns = dlogits.shape()[1];
    const std::int64_t* target = targets.data<std::int64_t>();
    const T weight = static_cast<T>(factor * static_cast<double>(*grad.data<T>()));
    T* out = dlogits.data<T>();
    for (std::int64_t r = 0; r < rows; ++r) out[r * columns + target[r]] -= weight;
  });
}

}  // namespace tutti::tensor::cpu
