// The GPU's softmax and losses against the CPU's, and what is said of a wrong target.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/ops.h>

#include "on_both.h"

namespace tutti::tensor::test {
namespace {

using Tensors = std::vector<Tensor>;

Tensor some_targets(std::int64_t rows, std::int64_t columns) {
  Tensor targets = Tensor::empty({rows}, DType::Int64);
  for (std::int64_t i = 0; i < rows; ++i) targets.data<std::int64_t>()[i] = i * 7 % columns;
  return targets;
}

void for_all(const std::function<void(std::int64_t, std::int64_t, DType, bool)>& body) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {64, 10}, {7, 33}, {9, 1000}, {3, 1025}, {2, 5000}, {300, 2}}) {
    for (const DType dtype : {DType::Float32, DType::Float64}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message() << rows << "x" << columns << " " << name(dtype) << " " << accumulate);
        body(rows, columns, dtype, accumulate);
      }
    }
  }
}

double start_of(bool accumulate) { return accumulate ? 2.5 : std::nan(""); }

TEST(CudaSoftmax, ValuesAndGradientsAreTheCpus) {
  for_all([](std::int64_t rows, std::int64_t columns, DType dtype, bool accumulate) {
    const Shape shape{rows, columns};
    const Tensor x = random_tensor(shape, 1, dtype);
    const Tensor grad = random_tensor(shape, 2, dtype);
    OnBoth{{shape, shape, shape, shape}, {x, grad}, dtype, start_of(accumulate)}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.softmax(out[0], in[0]);
          k.softmax_backward(out[1], in[1], out[0], accumulate);
          k.log_softmax(out[2], in[0]);
          k.log_softmax_backward(out[3], in[1], out[2], accumulate);
        });
  });
}

TEST(CudaLoss, ValuesAndGradientsAreTheCpus) {
  for_all([](std::int64_t rows, std::int64_t columns, DType dtype, bool accumulate) {
    const Shape shape{rows, columns};
    const Tensor x = random_tensor(shape, 1, dtype);
    const Tensor b = random_tensor(shape, 2, dtype);
    const Tensor targets = some_targets(rows, columns);
    const Tensor grad = Tensor::full({}, 0.7, dtype);
    for (const double smoothing : {0.0, 0.1}) {
      OnBoth{{Shape{}, shape, shape}, {x, targets, grad}, dtype, start_of(accumulate)}(
          [&](const KernelTable& k, Tensors& out, const Tensors& in) {
            k.cross_entropy(out[0], out[1], in[0], in[1], 0.5, smoothing);
            k.cross_entropy_backward(out[2], out[1], in[1], in[2], 0.5, smoothing, accumulate);
          });
    }
    OnBoth{{Shape{}, shape, shape}, {x, targets, grad, b}, dtype, start_of(accumulate)}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.nll_loss(out[0], in[0], in[1], 0.5);
          k.nll_loss_backward(out[1], in[1], in[2], 0.5, accumulate);
          k.squared_error_backward(out[2], in[0], in[3], in[2], 0.25, accumulate);
        });
  });
}

TEST(CudaLoss, HugeLogitsStayFinite) {
  const Variable logits(Tensor::from<float>({2, 3}, {1e4F, 0, -1e4F, 5e30F, 5e30F, 0}).to(kGpu));
  const Tensor targets = Tensor::from<std::int64_t>({2}, {0, 1}).to(kGpu);
  EXPECT_NEAR(cross_entropy(logits, targets).data().item(), std::log(2.0) / 2, 1e-6);
  for (const double value : values(log_softmax(logits).data().to(Device{}))) EXPECT_FALSE(std::isnan(value));
}

TEST(CudaLoss, AWrongTargetIsNamedWhenTheLossIsRead) {
  const Variable logits(random_tensor({4, 3}, 1, DType::Float32).to(kGpu));
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}}) {
    const Tensor targets = Tensor::from<std::int64_t>({4}, {0, 1, wrong, 2}).to(kGpu);
    for (const bool nll : {false, true}) {
      const Variable loss = nll ? nll_loss(logits, targets) : cross_entropy(logits, targets);
      std::string text;
      try {
        (void)loss.data().item();
      } catch (const std::invalid_argument& error) {
        text = error.what();
      }
      EXPECT_EQ(text, std::string(nll ? "nll_loss" : "cross_entropy") + ": target " + std::to_string(wrong) +
                          " in row 2 is outside [0, 3), the classes of the logits");
      EXPECT_TRUE(std::isnan(loss.data().item())) << "told once; the loss stays useless";
    }
  }
}

}  // namespace
}  // namespace tutti::tensor::test
