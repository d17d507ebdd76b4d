// Batch norm, pooling, dropout and silu at the shapes of a ResNet-18 on 32 images of 64x64, one thread.
//   build/release/bin/image_bench
//
// GB/s counts the fewest bytes that the operation can move: each tensor that it reads or writes once (x twice in a
// batch norm's forward; x and the gradient twice in its backward). `copy` is the roof.
#include <benchmark/benchmark.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/random.h>

#include <cstdint>

namespace {

using namespace tutti::tensor;  // a benchmark of one namespace

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Tensor tensor = Tensor::empty(shape);
  Mt19937 generator(seed);
  float* values = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = generator.uniform(-1, 1);
  return tensor;
}

void report_bytes(benchmark::State& state, double bytes) {
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// (32, side, side, channels) of the arguments (side, channels)
Shape image_shape(const benchmark::State& state) { return {32, state.range(0), state.range(0), state.range(1)}; }

void image_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"side", "channels"})->Args({32, 64})->Args({16, 64})->Args({8, 128})->Args({4, 256})->Args({2, 512});
}

void copy(benchmark::State& state) {
  const Tensor x = random_tensor(image_shape(state), 1);
  Tensor y = Tensor::empty(x.shape());
  for (auto _ : state) y.copy_from(x);
  report_bytes(state, 2.0 * static_cast<double>(x.nbytes()));
}
BENCHMARK(copy)->Apply(image_sizes);

struct BatchNormCase {
  Shape shape;
  Variable x;
  Variable residual;
  Variable weight;
  Variable bias;
  Tensor mean;
  Tensor variance;

  explicit BatchNormCase(const benchmark::State& state)
      : shape(image_shape(state)),
        x(random_tensor(shape, 1), true),
        residual(random_tensor(shape, 2), true),
        weight(Tensor::full({shape[3]}, 1), true),
        bias(Tensor::full({shape[3]}, 0.1), true),
        mean(Tensor::zeros({shape[3]})),
        variance(Tensor::full({shape[3]}, 1)) {}

  Variable run(bool add) {
    return batch_norm(x, weight, bias, mean, variance, {.activation = Activation::Relu}, add ? residual : Variable());
  }
  double bytes() const { return static_cast<double>(x.data().nbytes()); }
};

void batch_norm_forward(benchmark::State& state, bool add) {
  BatchNormCase test(state);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(test.run(add));
  report_bytes(state, (add ? 4 : 3) * test.bytes());
}

// Forward too, as backward uses up its record.
void batch_norm_step(benchmark::State& state, bool add) {
  BatchNormCase test(state);
  const Tensor seed = random_tensor(test.shape, 3);
  for (auto _ : state) {
    for (Variable* leaf : {&test.x, &test.residual, &test.weight, &test.bias}) leaf->zero_grad();
    test.run(add).backward(seed);
    benchmark::ClobberMemory();
  }
  // With a residual: y is read and dz written, once each.
  report_bytes(state, (add ? 4 + 7 : 3 + 5) * test.bytes());
}

BENCHMARK_CAPTURE(batch_norm_forward, relu, false)->Apply(image_sizes);
BENCHMARK_CAPTURE(batch_norm_forward, add_relu, true)->Apply(image_sizes);
BENCHMARK_CAPTURE(batch_norm_step, relu, false)->Apply(image_sizes);
BENCHMARK_CAPTURE(batch_norm_step, add_relu, true)->Apply(image_sizes);

// Forward and backward of f; `passes` is how often it moves the bytes of x.
template <typename F>
void step(benchmark::State& state, double passes, F&& f) {
  Variable x(random_tensor(image_shape(state), 1), true);
  Tensor seed = random_tensor(f(x).shape(), 2);
  for (auto _ : state) {
    x.zero_grad();
    f(x).backward(seed);
    benchmark::ClobberMemory();
  }
  report_bytes(state, passes * static_cast<double>(x.data().nbytes()));
}

// Of each quarter as large y: written and, as the gradient, read.
void max_pool_step(benchmark::State& state) {
  step(state, 2.5, [](const Variable& x) { return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); });
}
void avg_pool_step(benchmark::State& state) {
  step(state, 2.5, [](const Variable& x) { return avg_pool2d(x, {.kernel = 2}); });
}
void global_pool_step(benchmark::State& state) {
  step(state, 2, [](const Variable& x) { return adaptive_avg_pool2d(x, 1); });
}
// To PyTorch's order of an image and back.
void permute_step(benchmark::State& state) {
  step(state, 4, [](const Variable& x) { return flatten(permute(x, {0, 3, 1, 2})); });
}
void silu_step(benchmark::State& state) {
  step(state, 5, [](const Variable& x) { return silu(x); });
}
void dropout_step(benchmark::State& state) {
  const Tensor keys = Tensor::zeros({32}, DType::Int64);
  step(state, 4.5, [&](const Variable& x) { return dropout(x, 0.25, keys, 1); });
}
BENCHMARK(max_pool_step)->ArgNames({"side", "channels"})->Args({32, 64});
BENCHMARK(avg_pool_step)->ArgNames({"side", "channels"})->Args({32, 64});
BENCHMARK(global_pool_step)->ArgNames({"side", "channels"})->Args({2, 512})->Args({8, 128});
BENCHMARK(permute_step)->ArgNames({"side", "channels"})->Args({12, 64})->Args({64, 3});
BENCHMARK(silu_step)->ArgNames({"side", "channels"})->Args({16, 64});
BENCHMARK(dropout_step)->ArgNames({"side", "channels"})->Args({16, 64});

}  // namespace
