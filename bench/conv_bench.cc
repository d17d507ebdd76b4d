// Convolutions at the shapes of our models: forward, and the gradients of input and weights, beside what the core can
// do.
//   build/release/bin/conv_bench
// GFLOP/s counts the products that the sums are made of: those with padding are not, and are left out. Winograd's way
// (tensor/cpu/conv_winograd.h) computes fewer, and so may exceed the peak.
#include <benchmark/benchmark.h>
#include <tutti/tensor/cpu/simd.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/random.h>
#include <tutti/tensor/thread_pool.h>

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

// The products along one direction: over all output positions, the taps that lie inside.
std::int64_t taps_inside(std::int64_t input, std::int64_t output, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding) {
  std::int64_t count = 0;
  for (std::int64_t o = 0; o < output; ++o) {
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t i = o * stride - padding + k;
      if (i >= 0 && i < input) ++count;
    }
  }
  return count;
}

struct Layer {
  Tensor x;
  Tensor w;
  Tensor y;
  ConvWindow window;
  double flops;

  explicit Layer(const benchmark::State& state) : window{.stride = state.range(5), .padding = state.range(4) / 2} {
    const std::int64_t side = state.range(1);
    const std::int64_t kernel = state.range(4);
    const std::int64_t out = (side + 2 * (kernel / 2) - kernel) / state.range(5) + 1;
    x = random_tensor({state.range(0), side, side, state.range(2)}, 1);
    w = random_tensor({state.range(3), state.range(2), kernel, kernel}, 2);
    y = random_tensor({state.range(0), out, out, state.range(3)}, 3);
    const auto inside = static_cast<double>(taps_inside(side, out, kernel, state.range(5), kernel / 2));
    flops = 2 * inside * inside * static_cast<double>(state.range(0) * state.range(2) * state.range(3));
    set_num_threads(static_cast<int>(state.range(6)));
  }
  ~Layer() { set_num_threads(1); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  void report(benchmark::State& state) const {
    state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  }
};

void forward(benchmark::State& state) {
  Layer layer(state);
  for (auto _ : state) kernels({}).conv2d(layer.y, layer.x, layer.w, {}, layer.window, false);
  layer.report(state);
}

void input_gradient(benchmark::State& state) {
  Layer layer(state);
  for (auto _ : state) kernels({}).conv2d_input_gradient(layer.x, layer.y, layer.w, layer.window, false);
  layer.report(state);
}

void weight_gradient(benchmark::State& state) {
  Layer layer(state);
  for (auto _ : state) kernels({}).conv2d_weight_gradient(layer.w, layer.y, layer.x, layer.window, false);
  layer.report(state);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "side", "in", "out", "kernel", "stride", "threads"})->UseRealTime();
  for (const std::int64_t threads : {1, 2}) {
    bench
        ->Args({32, 64, 3, 64, 7, 2, threads})    // resnet: the first layer
        ->Args({32, 16, 64, 64, 3, 1, threads})   // layer1
        ->Args({32, 16, 64, 128, 3, 2, threads})  // between layers
        ->Args({32, 8, 128, 128, 3, 1, threads})  // layer2
        ->Args({32, 4, 256, 256, 3, 1, threads})  // layer3
        ->Args({32, 2, 512, 512, 3, 1, threads})  // layer4
        ->Args({16, 16, 64, 256, 1, 1, threads})  // resnet50: wide and narrow
        ->Args({16, 4, 1024, 256, 1, 1, threads})
        ->Args({4, 4, 256, 1024, 1, 1, threads})  // resnet101 at its batch of 4
        ->Args({4, 2, 512, 512, 3, 1, threads})
        ->Args({64, 26, 32, 64, 3, 1, threads});  // cnn: the second layer, less its padding
  }
}
BENCHMARK(forward)->Apply(shapes);
BENCHMARK(input_gradient)->Apply(shapes);
BENCHMARK(weight_gradient)->Apply(shapes);

// Nothing but multiply-adds in registers: the peak of one core.
void peak(benchmark::State& state) {
  using S = cpu::Simd<float>;
  constexpr int kChains = 16;
  constexpr int kRounds = 1000;
  S::Vec sums[kChains] = {};
  S::Vec a = S::Vec{} + 0.999F;
  benchmark::DoNotOptimize(a);
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      for (S::Vec& sum : sums) sum = sum * a + a;
    }
    benchmark::DoNotOptimize(sums);
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * kChains * kRounds * S::kLanes, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(peak);

}  // namespace
