// max_pool2d, avg_pool2d, adaptive_avg_pool2d. Each cuts the rows and the columns of the image into windows and leaves
// the rest to two pairs of kernels.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::tensor {
namespace {

struct Windows {
  std::vector<PoolWindow> rows;
  std::vector<PoolWindow> columns;

  Shape output(const Shape& x) const {
    return {x[0], static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns.size()), x[3]};
  }
  std::int64_t largest() const { return longest(rows) * longest(columns); }

 private:
  static std::int64_t longest(const std::vector<PoolWindow>& windows) {
    std::int64_t most = 0;
    for (const PoolWindow& window : windows) most = std::max(most, window.end - window.begin);
    return most;
  }
};

struct MaxPoolNode final : Node {
  Tensor choice;
  Windows windows;

  const char* name() const override { return "max_pool2d"; }
  void release() override { choice = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dx, bool accumulate) {
      k.max_pool_backward(dx, grad, choice, windows.rows, windows.columns, accumulate);
    });
  }
};

struct MeanPoolNode final : Node {
  const char* label = "avg_pool2d";
  Windows windows;

  const char* name() const override { return label; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dx, bool accumulate) {
      k.mean_pool_backward(dx, grad, windows.rows, windows.columns, accumulate);
    });
  }
};

std::string text(Pair pair) { return "(" + std::to_string(pair.height) + ", " + std::to_string(pair.width) + ")"; }

[[noreturn]] void refuse_pool(const char* operation, const Tensor& x, const std::string& complaint) {
  throw std::invalid_argument(std::string(operation) + ": x is " + describe(x) + "; " + complaint);
}

// Along one axis: windows of `kernel` at every `stride`, the first one `padding` before the image.
struct Axis {
  std::int64_t extent;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;

  std::int64_t count(bool ceil_mode) const {
    const std::int64_t room = extent + 2 * padding - kernel;
    if (room < 0) return 0;
    if (!ceil_mode) return room / stride + 1;
    const std::int64_t most = (room + stride - 1) / stride + 1;
    // A window that would begin behind the image and its left padding does not count.
    return (most - 1) * stride >= extent + padding ? most - 1 : most;
  }

  std::vector<PoolWindow> windows(bool ceil_mode, bool count_pad) const {
    std::vector<PoolWindow> all(static_cast<std::size_t>(count(ceil_mode)));
    std::int64_t start = -padding;
    for (PoolWindow& window : all) {
      window.begin = std::max<std::int64_t>(start, 0);
      window.end = std::min(start + kernel, extent);
      const std::int64_t padded = std::min(start + kernel, extent + padding) - start;
      window.divisor = count_pad ? padded : window.end - window.begin;
      start += stride;
    }
    return all;
  }
};

Windows pool_windows(const char* operation, const Tensor& x, const Pool2dOptions& options) {
  check_rank(operation, x, 4);
  check_floating(operation, x);
  const Pair kernel = options.kernel;
  const Pair padding = options.padding;
  Pair stride = options.stride;
  if (stride.height == 0) stride.height = kernel.height;
  if (stride.width == 0) stride.width = kernel.width;
  if (kernel.height < 1 || kernel.width < 1 || stride.height < 1 || stride.width < 1) {
    refuse_pool(operation, x, "kernel " + text(kernel) + " and stride " + text(stride) + " must be at least 1");
  }
  if (padding.height < 0 || padding.width < 0 || 2 * padding.height > kernel.height ||
      2 * padding.width > kernel.width) {
    refuse_pool(operation, x,
                "padding " + text(padding) + " must be from 0 to half of the kernel, which is " + text(kernel));
  }
  const Axis rows{x.shape()[1], kernel.height, stride.height, padding.height};
  const Axis columns{x.shape()[2], kernel.width, stride.width, padding.width};
  if (rows.count(options.ceil_mode) < 1 || columns.count(options.ceil_mode) < 1) {
    refuse_pool(operation, x,
                "kernel " + text(kernel) + " is larger than the image " + text({x.shape()[1], x.shape()[2]}) +
                    " with padding " + text(padding) + " on each side");
  }
  return {rows.windows(options.ceil_mode, options.count_include_pad),
          columns.windows(options.ceil_mode, options.count_include_pad)};
}

Variable mean_pooled(const char* label, const Variable& x, Windows windows) {
  const Tensor image = x.data().contiguous();
  Tensor y = Tensor::empty(windows.output(image.shape()), image.dtype(), image.device());
  kernels(image.device()).mean_pool(y, image, windows.rows, windows.columns);
  if (!must_record({&x})) return Variable(std::move(y));
  auto node = std::make_shared<MeanPoolNode>();
  node->label = label;
  node->windows = std::move(windows);
  return recorded(std::move(y), std::move(node), {&x});
}

// Share i of `count` is [floor(i extent / count), ceil((i + 1) extent / count)).
std::vector<PoolWindow> shares(std::int64_t extent, std::int64_t count) {
  std::vector<PoolWindow> all(static_cast<std::size_t>(count));
  std::int64_t i = 0;
  for (PoolWindow& share : all) {
    share.begin = i * extent / count;
    share.end = ((i + 1) * extent + count - 1) / count;
    share.divisor = share.end - share.begin;
    ++i;
  }
  return all;
}

}  // namespace

Variable max_pool2d(const Variable& x, const Pool2dOptions& options) {
  Windows windows = pool_windows("max_pool2d", x.data(), options);
  const Tensor image = x.data().contiguous();
  const Shape shape = windows.output(image.shape());
  Tensor y = Tensor::empty(shape, image.dtype(), image.device());
  Tensor choice = Tensor::empty(shape, windows.largest() <= 256 ? DType::UInt8 : DType::Int64, image.device());
  kernels(image.device()).max_pool(y, choice, image, windows.rows, windows.columns);
  if (!must_record({&x})) return Variable(std::move(y));
  auto node = std::make_shared<MaxPoolNode>();
  node->choice = std::move(choice);
  node->windows = std::move(windows);
  return recorded(std::move(y), std::move(node), {&x});
}

Variable avg_pool2d(const Variable& x, const Pool2dOptions& options) {
  return mean_pooled("avg_pool2d", x, pool_windows("avg_pool2d", x.data(), options));
}

Variable adaptive_avg_pool2d(const Variable& x, Pair output) {
  check_rank("adaptive_avg_pool2d", x.data(), 4);
  check_floating("adaptive_avg_pool2d", x.data());
  const std::int64_t height = x.shape()[1];
  const std::int64_t width = x.shape()[2];
  if (output.height < 1 || output.width < 1 || height < 1 || width < 1) {
    refuse_pool("adaptive_avg_pool2d", x.data(), "the image and the output " + text(output) + " must not be empty");
  }
  return mean_pooled("adaptive_avg_pool2d", x, {shares(height, output.height), shares(width, output.width)});
}

}  // namespace tutti::tensor
