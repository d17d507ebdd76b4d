// Kernels of a GPU beside what the card can do: bytes or operations, time, rate, share of the measured ceiling.
//   build/release/bin/cuda_bench [--device cuda:1] [--tf32 | --bf16]
//
// The ceilings are measured first: for memory a copy of 512 MiB (bytes read and written), for products a product of
// 8192 x 8192 x 8192 in the same arithmetic. Times are medians of rounds of launches with the host waiting at both ends
// of a round; a kernel of a few microseconds therefore shows what launching costs. Convolutions come twice: as the
// trainer runs them (by cuDNN, where it is there) and by our own kernels. Without a GPU it says so and ends with 0.
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/products.h>
#include <tutti/tensor/random.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace tutti::tensor;  // a benchmark of one namespace

Device device{Device::Kind::Cuda, 0};

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  // A megabyte of noise, repeated: zeros would flatter the card's clock.
  constexpr std::int64_t kPeriod = 1 << 18;
  Tensor tensor = Tensor::empty(shape);
  Mt19937 generator(seed);
  float* values = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] = i < kPeriod ? generator.uniform(-1, 1) : values[i - kPeriod];
  }
  return tensor.to(device);
}

double seconds_of(const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  const auto round = [&](int launches) {
    cuda::synchronize(device);
    const auto begin = Clock::now();
    for (int i = 0; i < launches; ++i) body();
    cuda::synchronize(device);
    return std::chrono::duration<double>(Clock::now() - begin).count() / launches;
  };
  round(3);  // plans are made, memory is taken
  const int launches = std::clamp(static_cast<int>(0.02 / round(3)), 3, 2000);
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(round(launches));
  std::ranges::nth_element(times, times.begin() + 3);
  return times[3];
}

struct Ceilings {
  double bytes;  // a second
  double operations;
};

Ceilings measure_ceilings() {
  const Tensor from = random_tensor({128 << 20}, 1);
  Tensor to = Tensor::empty(from.shape(), DType::Float32, device);
  const KernelTable& k = kernels(device);
  const double copy = seconds_of([&] { k.copy(to, from); });
  constexpr std::int64_t kExtent = 8192;
  const Tensor a = random_tensor({kExtent, kExtent}, 2);
  const Tensor b = random_tensor({kExtent, kExtent}, 3);
  Tensor c = Tensor::empty({kExtent, kExtent}, DType::Float32, device);
  const double product = seconds_of([&] { k.gemm(c, a, false, b, false, false); });
  return {2.0 * static_cast<double>(from.nbytes()) / copy, 2.0 * kExtent * kExtent * kExtent / product};
}

class Table {
 public:
  explicit Table(const Ceilings& ceilings) : ceilings_(ceilings) {
    std::printf("%-44s %12s %10s %14s %8s\n", "kernel", "work", "time", "rate", "ceiling");
  }
  void bytes(const std::string& kernel, double bytes, const std::function<void()>& body) const {
    const double time = seconds_of(body);
    std::printf("%-44s %9.1f MB %7.1f us %9.0f GB/s %7.0f%%\n", kernel.c_str(), bytes * 1e-6, time * 1e6,
                bytes / time * 1e-9, bytes / time / ceilings_.bytes * 100);
  }
  void operations(const std::string& kernel, double operations, const std::function<void()>& body) const {
    const double time = seconds_of(body);
    std::printf("%-44s %6.2f GFLOP %7.1f us %6.1f TFLOP/s %7.0f%%\n", kernel.c_str(), operations * 1e-9, time * 1e6,
                operations / time * 1e-12, operations / time / ceilings_.operations * 100);
  }

 private:
  Ceilings ceilings_;
};

std::vector<PoolWindow> windows(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  std::vector<PoolWindow> all;
  for (std::int64_t at = -padding; at + kernel <= extent + padding; at += stride) {
    all.push_back({std::max<std::int64_t>(at, 0), std::min(at + kernel, extent), kernel});
  }
  return all;
}

// Passes that wait for memory, over an activation of resnet50 at batch 256 and 64 x 64.
void memory_kernels(const Table& table) {
  const KernelTable& k = kernels(device);
  const Shape matrix{256 * 16 * 16, 256};
  const Tensor x = random_tensor(matrix, 1);
  const Tensor grad = random_tensor(matrix, 2);
  Tensor y = Tensor::empty(matrix, DType::Float32, device);
  Tensor none;
  const auto size = static_cast<double>(x.nbytes());
  Tensor mean = random_tensor({256}, 3);
  Tensor factor = random_tensor({256}, 4);
  Tensor sum = random_tensor({256}, 5);
  Tensor sum_x = random_tensor({256}, 6);
  const BatchNormPass pass{
      .x = x, .mean = mean, .factor = factor, .bias = mean, .inverse_deviation = mean, .relu = true};
  table.bytes("add", 3 * size, [&] { k.add(y, x, grad); });
  table.bytes("relu_backward", 3 * size, [&] { k.relu_backward(y, grad, x, false); });
  table.bytes("silu", 2 * size, [&] { k.curve(y, x, Curve::Silu); });
  table.bytes("column_sum", size, [&] { k.column_sum(sum, x, false); });
  table.bytes("batch_norm_statistics", size, [&] { k.batch_norm_statistics(sum, sum_x, x); });
  table.bytes("batch_norm, relu, residual", 3 * size, [&] { k.batch_norm(y, pass, grad); });
  table.bytes("batch_norm_sums", 2 * size, [&] { k.batch_norm_sums(sum, sum_x, none, pass, grad, none); });
  table.bytes("batch_norm_input", 3 * size, [&] { k.batch_norm_input(y, pass, grad, none, factor, mean, false); });

  const Tensor image = random_tensor({256, 32, 32, 64}, 7);
  const std::vector<PoolWindow> rows = windows(32, 3, 2, 1);
  const auto out = static_cast<std::int64_t>(rows.size());
  Tensor pooled = Tensor::empty({256, out, out, 64}, DType::Float32, device);
  Tensor choice = Tensor::empty(pooled.shape(), DType::UInt8, device);
  Tensor back = Tensor::empty(image.shape(), DType::Float32, device);
  const auto in_bytes = static_cast<double>(image.nbytes());
  const double out_bytes = static_cast<double>(pooled.nbytes() + choice.nbytes());
  table.bytes("max_pool 3x3/2", in_bytes + out_bytes, [&] { k.max_pool(pooled, choice, image, rows, rows); });
  table.bytes("max_pool_backward 3x3/2", in_bytes + out_bytes,
              [&] { k.max_pool_backward(back, pooled, choice, rows, rows, false); });
}

void products(const Table& table) {
  const KernelTable& k = kernels(device);
  struct Extents {
    std::int64_t m, n, inner;
  };
  for (const Extents& e : {Extents{64, 50, 784}, {256, 512, 12288}, {4096, 4096, 4096}}) {
    const Tensor x = random_tensor({e.m, e.inner}, 1);
    const Tensor w = random_tensor({e.n, e.inner}, 2);
    const Tensor bias = random_tensor({e.n}, 3);
    Tensor y = Tensor::empty({e.m, e.n}, DType::Float32, device);
    const std::string shape = std::to_string(e.m) + "x" + std::to_string(e.n) + "x" + std::to_string(e.inner);
    table.operations("linear, bias, relu " + shape, 2.0 * static_cast<double>(e.m * e.n * e.inner),
                     [&] { k.linear(y, x, w, bias, true); });
  }
}

struct Layer {
  const char* name;
  std::int64_t side, in, out, kernel, stride, groups;
};

void convolution(const Table& table, const Layer& layer, const std::string& by) {
  constexpr std::int64_t kBatch = 256;
  const KernelTable& k = kernels(device);
  const ConvWindow window{.stride = layer.stride, .padding = layer.kernel / 2, .groups = layer.groups};
  const std::int64_t side = (layer.side + 2 * (layer.kernel / 2) - layer.kernel) / layer.stride + 1;
  Tensor x = random_tensor({kBatch, layer.side, layer.side, layer.in}, 1);
  Tensor w = random_tensor({layer.out, layer.in / layer.groups, layer.kernel, layer.kernel}, 2);
  Tensor y = random_tensor({kBatch, side, side, layer.out}, 3);
  const double work = 2.0 * static_cast<double>(y.numel() * w.numel() / layer.out);
  const std::string name = std::string(layer.name) + ", " + by + ": ";
  if (layer.groups == layer.in) {
    const auto bytes = static_cast<double>(x.nbytes() + y.nbytes());
    table.bytes(name + "forward", bytes, [&] { k.conv2d(y, x, w, {}, window, false); });
    table.bytes(name + "input", bytes, [&] { k.conv2d_input_gradient(x, y, w, window, false); });
    table.bytes(name + "weight", bytes, [&] { k.conv2d_weight_gradient(w, y, x, window, false); });
    return;
  }
  table.operations(name + "forward", work, [&] { k.conv2d(y, x, w, {}, window, false); });
  table.operations(name + "input", work, [&] { k.conv2d_input_gradient(x, y, w, window, false); });
  table.operations(name + "weight", work, [&] { k.conv2d_weight_gradient(w, y, x, window, false); });
}

void convolutions(const Table& table) {
  const bool library = cudnn_wanted() && describe_products().find("convolutions by cuDNN") != std::string::npos;
  for (const Layer& layer : {Layer{"stem 7x7/2", 64, 3, 64, 7, 2, 1},
                             {"3x3 64", 16, 64, 64, 3, 1, 1},
                             {"1x1 64-256", 16, 64, 256, 1, 1, 1},
                             {"3x3/2 128", 16, 128, 128, 3, 2, 1},
                             {"3x3 256", 4, 256, 256, 3, 1, 1},
                             {"1x1 2048-512", 2, 2048, 512, 1, 1, 1}}) {
    if (library) convolution(table, layer, "cuDNN");
    set_cudnn_wanted(false);
    convolution(table, layer, "ours");
    set_cudnn_wanted(library);
  }
  convolution(table, {"depthwise 3x3 144", 16, 144, 144, 3, 1, 144}, "ours");
  convolution(table, {"depthwise 5x5/2 240", 8, 240, 240, 5, 2, 240}, "ours");
}

int run(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--tf32") {
      set_float32_products(Float32Products::Tf32);
    } else if (argument == "--bf16") {
      set_float32_products(Float32Products::Bf16);
    } else if (argument == "--device" && i + 1 < argc) {
      device = parse_device(argv[++i]);
    } else {
      std::fprintf(stderr, "cuda_bench: %s is not understood; usage: cuda_bench [--device cuda:N] [--tf32 | --bf16]\n",
                   argv[i]);
      return 2;
    }
  }
  if (!cuda_available()) {
    std::printf("cuda_bench: skipped: %s\n", cuda_status().c_str());
    return 0;
  }
  std::printf("%s\n%s\n", cuda_status().c_str(), describe_products().c_str());
  const Ceilings ceilings = measure_ceilings();
  std::printf("ceilings: %.0f GB/s copied (read and written), %.1f TFLOP/s of products\n\n", ceilings.bytes * 1e-9,
              ceilings.operations * 1e-12);
  const Table table(ceilings);
  memory_kernels(table);
  products(table);
  convolutions(table);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_bench: %s\n", error.what());
    return 1;
  }
}
