// Softmax over the last axis and the losses made of it.
//
// Every row is shifted by its maximum before exp, so nothing overflows. Eigen's exp works on 16 floats at a time, so it
// runs over the whole matrix at once: rows may be only 10 long.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/cpu/packets.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace tutti::tensor::cpu {
namespace {

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

void check_targets(const char* operation, const std::int64_t* targets, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (targets[r] < 0 || targets[r] >= columns) {
      throw std::invalid_argument(std::string(operation) + ": target " + std::to_string(targets[r]) + " in row " +
                                  std::to_string(r) + " is outside [0, " + std::to_string(columns) +
                                  "), the classes of the logits");
    }
  }
}

// p = exp(x - max(x)) per row, divided by its sum, which each(row, sum) sees.
template <typename T, typename F>
void softmax_rows(T* p, std::int64_t rows, std::int64_t columns, F&& each) {
  exponentials(p, p, rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = p + r * columns;
    const T denominator = row_sum(row, columns);
    each(denominator);
    const T inverse = T{1} / denominator;
    for (std::int64_t c = 0; c < columns; ++c) row[c] *= inverse;
  }
}

}  // namespace

void softmax(Tensor& y, const Tensor& x) {
  if (x.numel() == 0) return;
  with_float_type(y.dtype(), [&]<typename T>() {
    shift_rows(y.data<T>(), x.data<T>(), x.shape()[0], x.shape()[1]);
    softmax_rows(y.data<T>(), x.shape()[0], x.shape()[1], [](T) {});
  });
}

// dx = y (grad - sum(grad y))
void softmax_backward(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    const std::int64_t columns = y.shape()[1];
    for (std::int64_t r = 0; r < y.shape()[0]; ++r) {
      const T* g = grad.data<T>() + r * columns;
      const T* p = y.data<T>() + r * columns;
      T* out = dx.data<T>() + r * columns;
      T dot = 0;
      for (std::int64_t c = 0; c < columns; ++c) dot += g[c] * p[c];
      for (std::int64_t c = 0; c < columns; ++c) {
        const T value = p[c] * (g[c] - dot);
        out[c] = accumulate ? out[c] + value : value;
      }
    }
  });
}

void log_softmax(Tensor& y, const Tensor& x) {
  with_float_type(y.dtype(), [&]<typename T>() {
    const std::int64_t rows = x.shape()[0];
    const std::int64_t columns = x.shape()[1];
    if (rows * columns == 0) return;
    T* out = y.data<T>();
    shift_rows(out, x.data<T>(), rows, columns);
    Tensor scratch = Tensor::empty(x.shape(), x.dtype());
    T* e = scratch.data<T>();
    exponentials(e, out, rows * columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T log_sum = std::log(row_sum(e + r * columns, columns));
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

// The loss of a row is log(sum of exp) - (1 - smoothing) x[target] - smoothing mean(x), with x shifted.
void cross_entropy(Tensor& loss, Tensor& probabilities, const Tensor& logits, const Tensor& targets, double factor,
                   double smoothing) {
  with_float_type(logits.dtype(), [&]<typename T>() {
    const std::int64_t rows = logits.shape()[0];
    const std::int64_t columns = logits.shape()[1];
    const std::int64_t* target = targets.data<std::int64_t>();
    check_targets("cross_entropy", target, rows, columns);
    T* p = probabilities.data<T>();
    if (rows > 0) shift_rows(p, logits.data<T>(), rows, columns);
    const bool wide = loss.dtype() != logits.dtype();
    const auto term = [wide](double value) { return wide ? rounded_loss(value) : value; };
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* row = p + r * columns;
      total -= term((1 - smoothing) * static_cast<double>(row[target[r]]));
      if (smoothing > 0) {
        total -= term(smoothing * static_cast<double>(row_sum(row, columns)) / static_cast<double>(columns));
      }
    }
    softmax_rows(p, rows, columns, [&](T denominator) { total += term(static_cast<double>(std::log(denominator))); });
    loss.fill(factor * total);
  });
}

// dlogits = grad * factor * (probabilities - (1 - smoothing) one_hot(targets) - smoothing / columns)
void cross_entropy_backward(Tensor& dlogits, const Tensor& probabilities, const Tensor& targets, const Tensor& grad,
                            double factor, double smoothing, bool accumulate) {
  with_float_type(dlogits.dtype(), [&]<typename T>() {
    const std::int64_t rows = dlogits.shape()[0];
    const std::int64_t columns = dlogits.shape()[1];
    const std::int64_t* target = targets.data<std::int64_t>();
    const T weight = static_cast<T>(factor * grad.item());
    T* out = dlogits.data<T>();
    const T* p = probabilities.data<T>();
    const T share = static_cast<T>(smoothing / static_cast<double>(columns));
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const T value = weight * (p[i] - share);
      out[i] = accumulate ? out[i] + value : value;
    }
    const T rest = weight * static_cast<T>(1 - smoothing);
    for (std::int64_t r = 0; r < rows; ++r) out[r * columns + target[r]] -= rest;
  });
}

void nll_loss(Tensor& loss, const Tensor& log_probabilities, const Tensor& targets, double factor) {
  with_float_type(log_probabilities.dtype(), [&]<typename T>() {
    const std::int64_t rows = log_probabilities.shape()[0];
    const std::int64_t columns = log_probabilities.shape()[1];
    const std::int64_t* target = targets.data<std::int64_t>();
    check_targets("nll_loss", target, rows, columns);
    const T* logs = log_probabilities.data<T>();
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r) total -= static_cast<double>(logs[r * columns + target[r]]);
    loss.fill(factor * total);
  });
}

void nll_loss_backward(Tensor& dx, const Tensor& targets, const Tensor& grad, double factor, bool accumulate) {
  if (!accumulate) fill(dx, 0);
  with_float_type(dx.dtype(), [&]<typename T>() {
    const std::int64_t* target = targets.data<std::int64_t>();
    const T weight = static_cast<T>(factor * grad.item());
    T* out = dx.data<T>();
    for (std::int64_t r = 0; r < dx.shape()[0]; ++r) out[r * dx.shape()[1] + target[r]] -= weight;
  });
}

}  // namespace tutti::tensor::cpu
