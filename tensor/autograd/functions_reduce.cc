// sum and mean over given axes: one run of neighbouring axes after the other, each a sum over the middle of (A, B, C).
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace tutti::tensor {
namespace {

struct SumMiddleNode final : Node {
  const char* label = "sum";
  Shape slabs;  // (A, B, C)
  double factor = 1;

  const char* name() const override { return label; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& da, bool accumulate) {
      Tensor view = da.reshape(slabs);
      k.spread_middle(view, grad, factor, accumulate);
    });
  }
};

Shape shape_of(std::span<const std::int64_t> extents) { return Shape(extents); }

std::int64_t product(std::span<const std::int64_t> extents) { return shape_of(extents).numel(); }

// Over the axes [first, last), which go.
Variable sum_run(const char* label, const Variable& a, std::size_t first, std::size_t last, bool mean) {
  const std::span<const std::int64_t> extents = a.shape().extents();
  const Shape slabs{product(extents.first(first)), product(extents.subspan(first, last - first)),
                    product(extents.subspan(last))};
  std::vector<std::int64_t> kept(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(first));
  kept.insert(kept.end(), extents.begin() + static_cast<std::ptrdiff_t>(last), extents.end());
  Tensor y = Tensor::empty(shape_of(kept), a.data().dtype(), a.data().device());
  const double factor = mean ? 1.0 / static_cast<double>(slabs[1]) : 1.0;
  kernels(y.device()).sum_middle(y, a.data().reshape(slabs), factor);
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<SumMiddleNode>();
  node->label = label;
  node->slabs = slabs;
  node->factor = factor;
  return recorded(std::move(y), std::move(node), {&a});
}

std::array<bool, kMaxRank> marked_axes(const char* label, const Tensor& a, const std::vector<int>& axes) {
  std::array<bool, kMaxRank> marked{};
  if (axes.empty()) marked.fill(true);
  for (const int axis : axes) {
    const int plain = axis < 0 ? axis + a.rank() : axis;
    if (plain < 0 || plain >= a.rank() || marked[static_cast<std::size_t>(plain)]) {
      throw std::invalid_argument(std::string(label) + ": axis " + std::to_string(axis) +
                                  " is given twice or is not one of " + describe(a));
    }
    marked[static_cast<std::size_t>(plain)] = true;
  }
  return marked;
}

Variable reduced(const char* label, const Variable& a, const std::vector<int>& axes, bool keepdim, bool mean) {
  check_floating(label, a.data());
  const std::array<bool, kMaxRank> marked = marked_axes(label, a.data(), axes);
  std::vector<std::int64_t> extents(a.shape().extents().begin(), a.shape().extents().end());
  Variable y = a;
  // From the back, so that the axes before a run keep their places.
  for (std::size_t last = extents.size(); last > 0;) {
    std::size_t first = last;
    while (first > 0 && marked[first - 1]) extents[--first] = 1;
    if (first < last) y = sum_run(label, y, first, last, mean);
    last = first == last ? last - 1 : first;
  }
  return keepdim ? reshape(y, shape_of(extents)) : y;
}

}  // namespace

Variable sum(const Variable& a, const std::vector<int>& axes, bool keepdim) {
  return reduced("sum", a, axes, keepdim, false);
}

Variable mean(const Variable& a, const std::vector<int>& axes, bool keepdim) {
  return reduced("mean", a, axes, keepdim, true);
}

}  // namespace tutti::tensor
