// Optimizer steps over all parameters in one launch: the table of their addresses travels as the kernel's argument, and
// a block finds its piece of a parameter in it by binary search.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

#include <algorithm>

namespace tutti::tensor::cuda {
namespace {

constexpr std::int64_t kPiece = 4096;  // elements of a block

// 26 KiB at most: an argument may have 32,764 bytes. Small models take the small one.
template <int kCapacity>
struct Table {
  int parameters = 0;
  unsigned first_block[kCapacity + 1];
  UpdatedParameter of[kCapacity];
};
constexpr int kFew = 32;
constexpr int kMany = 480;

struct Piece {
  const UpdatedParameter* parameter;
  std::int64_t begin;
  std::int64_t end;
};

template <int kCapacity>
__device__ Piece piece_of_block(const Table<kCapacity>& table) {
  int low = 0;
  int high = table.parameters;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (table.first_block[middle] <= blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const UpdatedParameter& p = table.of[low];
  const std::int64_t begin = (blockIdx.x - table.first_block[low]) * kPiece;
  return {&p, begin, begin + kPiece < p.count ? begin + kPiece : p.count};
}

// The elements of all parameters: value, gradient and state of one at a time. Formulas: nn/optim/.
struct Sgd {
  SgdRule rule;
  __device__ void operator()(const UpdatedParameter& p, std::int64_t i) const {
    const float gradient = p.gradient[i] + rule.weight_decay * p.values[i];
    float step = gradient;
    if (p.first != nullptr) {
      const float buffer = rule.momentum * p.first[i] + p.rate * gradient;
      p.first[i] = buffer;
      step = rule.nesterov ? gradient + rule.momentum * buffer : buffer;
    }
    p.values[i] -= rule.learning_rate * step;
  }
};

struct Adam {
  AdamRule rule;
  __device__ void operator()(const UpdatedParameter& p, std::int64_t i) const {
    const float value = p.values[i];
    const float gradient = p.gradient[i] + rule.weight_decay * value;
    const float m = rule.beta1 * p.first[i] + rule.one_minus_beta1 * gradient;
    const float v = rule.beta2 * p.second[i] + rule.one_minus_beta2 * gradient * gradient;
    p.first[i] = m;
    p.second[i] = v;
    p.values[i] = rule.keep * value - p.rate * m / (sqrtf(v) * p.scale + rule.epsilon);
  }
};

struct Adadelta {
  AdadeltaRule rule;
  __device__ void operator()(const UpdatedParameter& p, std::int64_t i) const {
    const float gradient = p.gradient[i] + rule.weight_decay * p.values[i];
    const float square = rule.rho * p.first[i] + rule.one_minus_rho * gradient * gradient;
    const float change = sqrtf(p.second[i] + rule.epsilon) / sqrtf(square + rule.epsilon) * gradient;
    p.first[i] = square;
    p.second[i] = rule.rho * p.second[i] + rule.one_minus_rho * change * change;
    p.values[i] -= rule.learning_rate * change;
  }
};

struct ScaleGradient {
  float factor;
  __device__ void operator()(const UpdatedParameter& p, std::int64_t i) const { p.gradient[i] *= factor; }
};

template <int kCapacity, typename Rule>
__global__ void update_kernel(const __grid_constant__ Table<kCapacity> table, Rule rule) {
  const Piece piece = piece_of_block(table);
  const UpdatedParameter p = *piece.parameter;
  for (std::int64_t i = piece.begin + threadIdx.x; i < piece.end; i += kThreads) rule(p, i);
}

template <int kCapacity>
__global__ void squares_kernel(const __grid_constant__ Table<kCapacity> table, double* partial) {
  const Piece piece = piece_of_block(table);
  const float* const gradient = piece.parameter->gradient;
  double total = 0;
  for (std::int64_t i = piece.begin + threadIdx.x; i < piece.end; i += kThreads) {
    total += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  }
  total = block_sum<kThreads>(total);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <int kCapacity>
unsigned fill_table(Table<kCapacity>& table, std::span<const UpdatedParameter> parameters) {
  unsigned blocks = 0;
  table.parameters = static_cast<int>(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    table.of[i] = parameters[i];
    table.first_block[i] = blocks;
    blocks += static_cast<unsigned>((parameters[i].count + kPiece - 1) / kPiece);
  }
  table.first_block[parameters.size()] = blocks;
  return blocks;
}

// body(table, blocks) for as many tables as the parameters need: nearly always one.
template <typename F>
void for_tables(std::span<const UpdatedParameter> parameters, F&& body) {
  if (parameters.size() <= kFew) {
    Table<kFew> table;
    const unsigned blocks = fill_table(table, parameters);
    return body(table, blocks);
  }
  for (std::size_t at = 0; at < parameters.size(); at += kMany) {
    Table<kMany> table;
    const unsigned blocks =
        fill_table(table, parameters.subspan(at, std::min<std::size_t>(kMany, parameters.size() - at)));
    body(table, blocks);
  }
}

template <typename Rule>
void update(const char* operation, Device device, std::span<const UpdatedParameter> parameters, const Rule& rule) {
  const Operation op(operation, device);
  for_tables(parameters, [&]<int kCapacity>(const Table<kCapacity>& table, unsigned blocks) {
    op.launch({.blocks = blocks}, update_kernel<kCapacity, Rule>, table, rule);
  });
}

}  // namespace

void sgd_update(Device device, std::span<const UpdatedParameter> parameters, const SgdRule& rule) {
  update("sgd", device, parameters, Sgd{rule});
}

void adam_update(Device device, std::span<const UpdatedParameter> parameters, const AdamRule& rule) {
  update("adam", device, parameters, Adam{rule});
}

void adadelta_update(Device device, std::span<const UpdatedParameter> parameters, const AdadeltaRule& rule) {
  update("adadelta", device, parameters, Adadelta{rule});
}

void scale_gradients(Device device, std::span<const UpdatedParameter> parameters, float factor) {
  update("scale_gradients", device, parameters, ScaleGradient{factor});
}

double sum_of_squares(Device device, std::span<const UpdatedParameter> parameters) {
  const Operation op("sum_of_squares", device);
  double total = 0;
  for_tables(parameters, [&]<int kCapacity>(const Table<kCapacity>& table, unsigned blocks) {
    if (blocks == 0) return;
    Tensor partial = Tensor::empty({blocks}, DType::Float64, device);
    op.launch({.blocks = blocks}, squares_kernel<kCapacity>, table, address<double>(partial));
    Tensor all = Tensor::empty({}, DType::Float64, device);
    sum(all, partial, 1);
    total += all.item();
  });
  return total;
}

}  // namespace tutti::tensor::cuda
