// Softmax over the last axis of (M, C), and the losses made of it. A row belongs to a warp, or to a block when it is
// long; it is shifted by its maximum before exp, so nothing overflows.
//
// A target outside the classes is noted for the host (runtime.h: Complaint) and makes the loss NaN.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

namespace tutti::tensor::cuda {
namespace {

constexpr std::int64_t kLongRow = 1024;
constexpr unsigned kRowsOfBlock = kThreads / kWarpLanes;

// The threads that share a row.
struct WarpTeam {
  __device__ static std::int64_t row() {
    return static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kWarpLanes;
  }
  __device__ static unsigned member() { return threadIdx.x % kWarpLanes; }
  __device__ static unsigned size() { return kWarpLanes; }
  template <typename T>
  __device__ static T sum(T value) {
    return warp_sum(value);
  }
  template <typename T>
  __device__ static T max(T value) {
    return warp_max(value);
  }
};
struct BlockTeam {
  __device__ static std::int64_t row() { return blockIdx.x; }
  __device__ static unsigned member() { return threadIdx.x; }
  __device__ static unsigned size() { return kThreads; }
  template <typename T>
  __device__ static T sum(T value) {
    return block_sum<kThreads>(value);
  }
  template <typename T>
  __device__ static T max(T value) {
    return block_max<kThreads>(value);
  }
};

// Calls body.operator()<team>(grid) with the team that suits (M, C).
template <typename F>
void with_team(const Tensor& rows, F&& body) {
  const std::int64_t count = rows.numel() == 0 ? 0 : rows.shape()[0];
  if (rows.shape()[1] > kLongRow) {
    body.template operator()<BlockTeam>(Grid{.blocks = static_cast<unsigned>(count)});
  } else {
    body.template operator()<WarpTeam>(
        Grid{.blocks = static_cast<unsigned>((count + kRowsOfBlock - 1) / kRowsOfBlock)});
  }
}

template <typename Team, typename T>
__device__ T largest_of(const T* row, std::int64_t columns) {
  T largest = row[0];
  for (std::int64_t c = Team::member(); c < columns; c += Team::size()) largest = larger(largest, row[c]);
  return Team::max(largest);
}

template <typename Team, typename T>
__device__ T sum_of_exponentials(const T* row, std::int64_t columns, T largest) {
  T total = 0;
  for (std::int64_t c = Team::member(); c < columns; c += Team::size()) total += exponential(row[c] - largest);
  return Team::sum(total);
}

template <typename Team, typename T>
__global__ void softmax_kernel(T* y, const T* x, std::int64_t rows, std::int64_t columns, bool logarithmic) {
  const std::int64_t row = Team::row();
  if (row >= rows) return;
  const T* from = x + row * columns;
  T* to = y + row * columns;
  const T largest = largest_of<Team>(from, columns);
  const T total = sum_of_exponentials<Team>(from, columns, largest);
  const T inverse = T{1} / total;
  const T log_total = logarithm(total);
  for (std::int64_t c = Team::member(); c < columns; c += Team::size()) {
    const T shifted = from[c] - largest;
    to[c] = logarithmic ? shifted - log_total : exponential(shifted) * inverse;
  }
}

// dx = y (grad - sum(grad y)); of log softmax: grad - exp(y) sum(grad)
template <typename Team, typename T>
__global__ void softmax_backward_kernel(T* dx, const T* grad, const T* y, std::int64_t rows, std::int64_t columns,
                                        bool logarithmic, bool accumulate) {
  const std::int64_t row = Team::row();
  if (row >= rows) return;
  const T* g = grad + row * columns;
  const T* p = y + row * columns;
  T* to = dx + row * columns;
  T dot = 0;
  for (std::int64_t c = Team::member(); c < columns; c += Team::size()) dot += logarithmic ? g[c] : g[c] * p[c];
  dot = Team::sum(dot);
  for (std::int64_t c = Team::member(); c < columns; c += Team::size()) {
    const T value = logarithmic ? g[c] - exponential(p[c]) * dot : p[c] * (g[c] - dot);
    to[c] = accumulate ? to[c] + value : value;
  }
}

// True when `target` is a class; else the host will be told.
__device__ inline bool is_class(std::int64_t target, std::int64_t row, std::int64_t columns, Complaint* complaint,
                                const char* operation) {
  if (target >= 0 && target < columns) return true;
  if (atomicCAS(&complaint->taken, 0u, 1u) == 0u) {
    complaint->operation = operation;
    complaint->row = row;
    complaint->value = target;
    complaint->bound = columns;
  }
  return false;
}

template <typename T>
__device__ T not_a_number() {
  return static_cast<T>(__int_as_float(0x7fffffff));
}

struct Targets {
  const std::int64_t* classes;
  Complaint* complaint;
  const char* operation;
};

// losses[row] = log(sum of exp) - (1 - smoothing) x[target] - smoothing mean(x), with x shifted.
template <typename Team, typename T>
__global__ void cross_entropy_kernel(double* losses, T* probabilities, const T* logits, Targets targets,
                                     std::int64_t rows, std::int64_t columns, double smoothing) {
  const std::int64_t row = Team::row();
  if (row >= rows) return;
  const T* from = logits + row * columns;
  T* to = probabilities + row * columns;
  const T largest = largest_of<Team>(from, columns);
  const T total = sum_of_exponentials<Team>(from, columns, largest);
  const T inverse = T{1} / total;
  double shifted_sum = 0;
  for (std::int64_t c = Team::member(); c < columns; c += Team::size()) {
    const T shifted = from[c] - largest;
    shifted_sum += static_cast<double>(shifted);
    to[c] = exponential(shifted) * inverse;
  }
  if (smoothing > 0) shifted_sum = Team::sum(shifted_sum);
  if (Team::member() != 0) return;
  const std::int64_t target = targets.classes[row];
  if (!is_class(target, row, columns, targets.complaint, targets.operation)) {
    losses[row] = not_a_number<double>();
    return;
  }
  losses[row] = static_cast<double>(logarithm(total)) - (1 - smoothing) * static_cast<double>(from[target] - largest) -
                smoothing * shifted_sum / static_cast<double>(columns);
}

template <typename T>
__global__ void nll_kernel(double* losses, const T* logs, Targets targets, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = first_index(); row < rows; row += index_step()) {
    const std::int64_t target = targets.classes[row];
    const bool valid = is_class(target, row, columns, targets.complaint, targets.operation);
    losses[row] = valid ? -static_cast<double>(logs[row * columns + target]) : not_a_number<double>();
  }
}

// loss () = factor * sum of the rows' losses, by one block in a fixed order.
template <typename T>
__global__ void total_kernel(T* loss, const double* losses, std::int64_t rows, double factor) {
  double total = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) total += losses[row];
  total = block_sum<kThreads>(total);
  if (threadIdx.x == 0) *loss = static_cast<T>(factor * total);
}

// dlogits = grad * factor * (probabilities - (1 - smoothing) one_hot(targets) - smoothing / columns)
template <typename T>
__global__ void cross_entropy_backward_kernel(T* dlogits, const T* probabilities, const std::int64_t* targets,
                                              const T* grad, std::int64_t count, unsigned columns, double factor,
                                              double smoothing, bool accumulate) {
  const T weight = static_cast<T>(factor * static_cast<double>(*grad));
  const T share = static_cast<T>(smoothing / static_cast<double>(columns));
  const T rest = weight * static_cast<T>(1 - smoothing);
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::int64_t row = i / columns;
    T value = weight * (probabilities[i] - share);
    if (targets[row] == i - row * columns) value -= rest;
    dlogits[i] = accumulate ? dlogits[i] + value : value;
  }
}

template <typename T>
__global__ void nll_backward_kernel(T* dx, const std::int64_t* targets, const T* grad, std::int64_t count,
                                    unsigned columns, double factor, bool accumulate) {
  const T weight = static_cast<T>(factor * static_cast<double>(*grad));
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::int64_t row = i / columns;
    const T value = targets[row] == i - row * columns ? -weight : T{0};
    dx[i] = accumulate ? dx[i] + value : value;
  }
}

Targets targets_of(const Operation& op, const Tensor& targets) {
  return {address<std::int64_t>(targets), complaint(op.device()), op.name()};
}

template <typename T>
void add_up(const Operation& op, Tensor& loss, const Tensor& losses, double factor) {
  op.launch({.blocks = 1}, total_kernel<T>, address<T>(loss), address<double>(losses), losses.numel(), factor);
}

}  // namespace

void softmax(Tensor& y, const Tensor& x) {
  const Operation op("softmax", y);
  with_float_type(y.dtype(), [&]<typename T>() {
    with_team(x, [&]<typename Team>(const Grid& grid) {
      op.launch(grid, softmax_kernel<Team, T>, address<T>(y), address<T>(x), x.shape()[0], x.shape()[1], false);
    });
  });
}

void log_softmax(Tensor& y, const Tensor& x) {
  const Operation op("log_softmax", y);
  with_float_type(y.dtype(), [&]<typename T>() {
    with_team(x, [&]<typename Team>(const Grid& grid) {
      op.launch(grid, softmax_kernel<Team, T>, address<T>(y), address<T>(x), x.shape()[0], x.shape()[1], true);
    });
  });
}

void softmax_backward(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate) {
  const Operation op("softmax_backward", dx);
  with_float_type(dx.dtype(), [&]<typename T>() {
    with_team(y, [&]<typename Team>(const Grid& grid) {
      op.launch(grid, softmax_backward_kernel<Team, T>, address<T>(dx), address<T>(grad), address<T>(y), y.shape()[0],
                y.shape()[1], false, accumulate);
    });
  });
}

void log_softmax_backward(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate) {
  const Operation op("log_softmax_backward", dx);
  with_float_type(dx.dtype(), [&]<typename T>() {
    with_team(y, [&]<typename Team>(const Grid& grid) {
      op.launch(grid, softmax_backward_kernel<Team, T>, address<T>(dx), address<T>(grad), address<T>(y), y.shape()[0],
                y.shape()[1], true, accumulate);
    });
  });
}

void cross_entropy(Tensor& loss, Tensor& probabilities, const Tensor& logits, const Tensor& targets, double factor,
                   double smoothing) {
  const Operation op("cross_entropy", logits);
  Tensor losses = Tensor::empty({logits.shape()[0]}, DType::Float64, logits.device());
  with_float_type(logits.dtype(), [&]<typename T>() {
    with_team(logits, [&]<typename Team>(const Grid& grid) {
      op.launch(grid, cross_entropy_kernel<Team, T>, address<double>(losses), address<T>(probabilities),
                address<T>(logits), targets_of(op, targets), logits.shape()[0], logits.shape()[1], smoothing);
    });
    add_up<T>(op, loss, losses, factor);
  });
}

void cross_entropy_backward(Tensor& dlogits, const Tensor& probabilities, const Tensor& targets, const Tensor& grad,
                            double factor, double smoothing, bool accumulate) {
  const Operation op("cross_entropy_backward", dlogits);
  with_float_type(dlogits.dtype(), [&]<typename T>() {
    op.launch(op.over(dlogits.numel()), cross_entropy_backward_kernel<T>, address<T>(dlogits),
              address<T>(probabilities), address<std::int64_t>(targets), address<T>(grad), dlogits.numel(),
              dlogits.shape()[1], factor, smoothing, accumulate);
  });
}

void nll_loss(Tensor& loss, const Tensor& log_probabilities, const Tensor& targets, double factor) {
  const Operation op("nll_loss", log_probabilities);
  const std::int64_t rows = log_probabilities.shape()[0];
  Tensor losses = Tensor::empty({rows}, DType::Float64, log_probabilities.device());
  with_float_type(log_probabilities.dtype(), [&]<typename T>() {
    op.launch(op.over(rows), nll_kernel<T>, address<double>(losses), address<T>(log_probabilities),
              targets_of(op, targets), rows, log_probabilities.shape()[1]);
    add_up<T>(op, loss, losses, factor);
  });
}

void nll_loss_backward(Tensor& dx, const Tensor& targets, const Tensor& grad, double factor, bool accumulate) {
  const Operation op("nll_loss_backward", dx);
  with_float_type(dx.dtype(), [&]<typename T>() {
    op.launch(op.over(dx.numel()), nll_backward_kernel<T>, address<T>(dx), address<std::int64_t>(targets),
              address<T>(grad), dx.numel(), dx.shape()[1], factor, accumulate);
  });
}

}  // namespace tutti::tensor::cuda
