// Matrix products at the shapes of our models, and a whole training step of mlp 784-50-10 without the optimizer.
//   build/release/bin/tensor_bench
#include <benchmark/benchmark.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/random.h>
#include <tutti/tensor/thread_pool.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using namespace tutti::tensor;  // a benchmark of one namespace

Tensor random_tensor(const Shape& shape, std::uint64_t seed, float bound = 1) {
  Tensor tensor = Tensor::empty(shape);
  Mt19937 generator(seed);
  float* values = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = generator.uniform(-bound, bound);
  return tensor;
}

void report_flops(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

enum Form { kNN, kNT, kTN };

// c (m, n) = op(a) op(b) over k
void gemm_bench(benchmark::State& state, Form form) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const Tensor a = random_tensor(form == kTN ? Shape{k, m} : Shape{m, k}, 1);
  const Tensor b = random_tensor(form == kNT ? Shape{n, k} : Shape{k, n}, 2);
  Tensor c = Tensor::empty({m, n});
  const KernelTable& table = kernels({});
  for (auto _ : state) {
    table.gemm(c, a, form == kTN, b, form == kNT, false);
    benchmark::ClobberMemory();
  }
  report_flops(state, 2.0 * static_cast<double>(m * n * k));
}

void forward_nt(benchmark::State& state) { gemm_bench(state, kNT); }
void weight_gradient_tn(benchmark::State& state) { gemm_bench(state, kTN); }
void input_gradient_nn(benchmark::State& state) { gemm_bench(state, kNN); }

BENCHMARK(forward_nt)
    ->ArgNames({"m", "n", "k"})
    ->Args({64, 50, 784})
    ->Args({64, 10, 50})
    ->Args({128, 128, 784})
    ->Args({128, 128, 128})
    ->Args({128, 784, 128})
    ->Args({32, 512, 12288})
    ->Args({1024, 1024, 1024});
BENCHMARK(weight_gradient_tn)
    ->ArgNames({"m", "n", "k"})
    ->Args({50, 784, 64})
    ->Args({10, 50, 64})
    ->Args({128, 784, 128})
    ->Args({128, 128, 128})
    ->Args({784, 128, 128})
    ->Args({512, 12288, 32})
    ->Args({1024, 1024, 1024});
BENCHMARK(input_gradient_nn)
    ->ArgNames({"m", "n", "k"})
    ->Args({64, 50, 10})
    ->Args({128, 128, 128})
    ->Args({128, 128, 784})
    ->Args({32, 512, 128})
    ->Args({1024, 1024, 1024});

void tensor_empty(benchmark::State& state) {
  for (auto _ : state) {
    Tensor tensor = Tensor::empty({64, 50});
    benchmark::DoNotOptimize(tensor);
  }
}
BENCHMARK(tensor_empty);

// The engine's own cost: a chain of operations on one element, a node each.
void engine_per_node(benchmark::State& state) {
  constexpr int kNodes = 1000;
  Variable leaf(Tensor::full({1}, 1.0), true);
  for (auto _ : state) {
    Variable y = leaf;
    for (int i = 0; i < kNodes; ++i) y = scale(y, 1.0);
    leaf.zero_grad();
    y.backward();
  }
  state.counters["time/node"] =
      benchmark::Counter(kNodes, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(engine_per_node);

void softmax_cross_entropy(benchmark::State& state) {
  const Variable logits(random_tensor({64, 10}, 1), true);
  const Tensor targets = Tensor::zeros({64}, DType::Int64);
  for (auto _ : state) benchmark::DoNotOptimize(cross_entropy(logits, targets));
}
BENCHMARK(softmax_cross_entropy);

struct Layer {
  Variable w;
  Variable b;
  Layer(std::int64_t inputs, std::int64_t outputs, std::uint64_t seed)
      : w(random_tensor({outputs, inputs}, seed, 1 / std::sqrt(static_cast<float>(inputs))), true),
        b(random_tensor({outputs}, seed + 1, 0.1F), true) {
    w.set_grad_memory(Tensor::zeros(w.shape()));
    b.set_grad_memory(Tensor::zeros(b.shape()));
  }
};

// forward, cross_entropy, backward; gradients land in memory given beforehand, as in data-parallel training.
void mlp_step(benchmark::State& state) {
  constexpr std::int64_t kBatch = 64;
  set_num_threads(static_cast<int>(state.range(0)));
  const Variable x(random_tensor({kBatch, 784}, 1));
  const Tensor targets = Tensor::zeros({kBatch}, DType::Int64);
  Layer first(784, 50, 2);
  Layer second(50, 10, 4);
  for (auto _ : state) {
    for (Layer* layer : {&first, &second}) {
      layer->w.zero_grad();
      layer->b.zero_grad();
    }
    const Variable hidden = linear(x, first.w, first.b, Activation::Relu);
    Variable loss = cross_entropy(linear(hidden, second.w, second.b), targets);
    loss.backward();
    benchmark::ClobberMemory();
  }
  report_flops(state, 2.0 * kBatch * (2 * 784 * 50 + 3 * 50 * 10));
  set_num_threads(1);
}
BENCHMARK(mlp_step)->ArgName("threads")->Arg(1)->Arg(2);

}  // namespace
