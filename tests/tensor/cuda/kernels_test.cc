// The GPU's kernels against the CPU's. Copies and element-wise kernels, element for element.

#include <gtest/gtest.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/ops.h>

#include <cmath>

#include "../support.h"
#include "on_both.h"

namespace tutti::tensor::test {
namespace {

using Tensors = std::vector<Tensor>;

TEST(CudaCopy, FillsEveryTypeAndStride) {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
    for (const std::int64_t count : {0, 1, 3, 1000, 70'001}) {
      const Tensor x = Tensor::full({count}, 7, dtype, kGpu);
      EXPECT_EQ(values(x.to(Device{})), values(Tensor::full({count}, 7, dtype))) << name(dtype) << " " << count;
    }
    Tensor x = Tensor::zeros({4, 5, 6}, dtype, kGpu);
    Tensor here = Tensor::zeros({4, 5, 6}, dtype);
    x.transpose(0, 2).narrow(1, 1, 3).fill(3);
    here.transpose(0, 2).narrow(1, 1, 3).fill(3);
    EXPECT_EQ(values(x.to(Device{})), values(here));
  }
}

TEST(CudaCopy, ConvertsAsTheCpuDoes) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor from = Tensor::from<double>({8}, {0, -1.5, 2.9, 300, -inf, inf, std::nan(""), 1e30});
  for (const DType via : {DType::Float32, DType::Float64}) {
    for (const DType to : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
      const Tensor here = from.to(via);
      const std::vector<double> expected = values(here.to(to));
      const std::vector<double> got = values(here.to(kGpu).to(to).to(Device{}));
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) << name(to) << " " << i;
      }
    }
  }
  const Tensor whole = Tensor::from<std::int64_t>({3}, {-1, 255, 256});
  EXPECT_EQ(values(whole.to(kGpu).to(DType::UInt8).to(Device{})), values(whole.to(DType::UInt8)));
}

TEST(CudaCopy, PacksAndUnpacksViews) {
  const Tensor here = random_tensor({3, 1, 5, 7, 2}, 4, DType::Float32);
  const Tensor there = here.to(kGpu);
  for (int a = 0; a < 5; ++a) {
    for (int b = 0; b < 5; ++b) {
      EXPECT_EQ(values(there.transpose(a, b).contiguous().to(Device{})), values(here.transpose(a, b)));
      EXPECT_EQ(values(there.transpose(a, b).narrow(-1, 0, 1).to(Device{})),
                values(here.transpose(a, b).narrow(-1, 0, 1)));
    }
  }
  Tensor target = Tensor::zeros({5, 3}, DType::Float32, kGpu);
  Tensor part = target.transpose(0, 1).narrow(0, 1, 2);
  part.copy_from(random_tensor({2, 5}, 5, DType::Float32));
  EXPECT_EQ(values(part.to(Device{})), values(random_tensor({2, 5}, 5, DType::Float32)));
}

// Runs one kernel on both devices, for counts around packs, blocks and grids, aligned and not, into fresh and into old
// contents.
using Body = std::function<void(const KernelTable&, Tensor& out, const Tensor& a, const Tensor& b, bool accumulate)>;
void check_map(const Body& body, bool may_accumulate) {
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    for (const std::int64_t count : {0, 1, 3, 4, 5, 255, 1024, 40'007}) {
      for (const std::int64_t shift : {0, 1}) {
        for (const bool accumulate : {false, true}) {
          if (accumulate && !may_accumulate) continue;
          SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(count) + " shifted by " + std::to_string(shift));
          Tensor a = random_tensor({count + shift}, 1, dtype, 0.1).narrow(0, shift, count);
          const Tensor b = random_tensor({count + shift}, 2, dtype, 0.1).narrow(0, shift, count);
          const double start = accumulate ? 3 : std::nan("");
          Tensor expected = Tensor::full({count}, start, dtype);
          body(kernels({}), expected, a, b, accumulate);
          Tensor out = Tensor::full({count + shift}, start, dtype, kGpu).narrow(0, shift, count);
          Tensor far_a = Tensor::empty({count + shift}, dtype, kGpu).narrow(0, shift, count);
          Tensor far_b = Tensor::empty({count + shift}, dtype, kGpu).narrow(0, shift, count);
          far_a.copy_from(a);
          far_b.copy_from(b);
          body(kernels(kGpu), out, far_a, far_b, accumulate);
          expect_close(out.to(Device{}), expected, 1e-6, 1e-6);
        }
      }
    }
  }
}

TEST(CudaElementwise, ArithmeticIsTheCpus) {
  check_map([](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor& b, bool) { k.add(o, a, b); }, false);
  check_map([](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor& b, bool) { k.sub(o, a, b); }, false);
  check_map([](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor& b, bool) { k.div(o, a, b); }, false);
  check_map([](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor& b, bool more) { k.mul(o, a, b, more); },
            true);
  check_map(
      [](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor&, bool more) { k.scale(o, a, -1.5, more); },
      true);
  check_map([](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor&, bool) { k.relu(o, a); }, false);
  check_map([](const KernelTable& k, Tensor& o, const Tensor& a, const Tensor& b,
               bool more) { k.relu_backward(o, a, b, more); },
            true);
}

TEST(CudaElementwise, AResultMayOverwriteItsInput) {
  Tensor x = Tensor::full({1000}, 3, DType::Float32, kGpu);
  kernels(kGpu).add(x, x, x);
  kernels(kGpu).relu(x, x);
  EXPECT_EQ(values(x.to(Device{})), std::vector<double>(1000, 6));
}

// The GPU's sums, passes with broadcast factors, curves and masks against the CPU's.

struct Slabs {
  std::int64_t a, b, c;
};

// Around runs, warps, tiles and chunks; (A, 0, C) too.
const std::vector<Slabs> kSlabs = {{1, 1, 1},    {3, 5, 7},    {2, 49, 33}, {1, 300, 31}, {4, 0, 5}, {70, 16, 1},
                                   {2, 1025, 1}, {1, 9000, 1}, {5, 33, 64}, {1, 4099, 3}, {0, 3, 4}, {1, 70'000, 2}};

void for_all(const std::function<void(const Slabs&, DType, bool)>& body) {
  for (const Slabs& s : kSlabs) {
    for (const DType dtype : {DType::Float32, DType::Float64}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << s.a << "x" << s.b << "x" << s.c << " " << name(dtype) << " " << accumulate);
        body(s, dtype, accumulate);
      }
    }
  }
}

double start_of(bool accumulate) { return accumulate ? 2.5 : std::nan(""); }

TEST(CudaReduce, SumsAreTheCpus) {
  for_all([](const Slabs& s, DType dtype, bool accumulate) {
    const Tensor x = random_tensor({s.a, s.b, s.c}, 1, dtype);
    const Tensor y = random_tensor({s.a, s.b, s.c}, 2, dtype);
    OnBoth{{Shape{}, Shape{}}, {x, y}, dtype, std::nan(""), 1e-5, 1e-4}(
        [](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.sum(out[0], in[0], 0.5);
          k.squared_error(out[1], in[0], in[1], 0.25);
        });
    OnBoth{{{s.a, s.c}, {s.a, s.c}}, {x, y}, dtype, start_of(accumulate), 1e-4, 1e-4}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.sum_middle(out[0], in[0], 2);
          k.channel_dots(out[1], in[0], in[1], accumulate);
        });
    OnBoth{{{s.c}}, {x.reshape({s.a * s.b, s.c})}, dtype, start_of(accumulate), 1e-4, 1e-4}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) { k.column_sum(out[0], in[0], accumulate); });
  });
}

TEST(CudaBroadcast, FactorsReachTheirRowsAndChannels) {
  for_all([](const Slabs& s, DType dtype, bool accumulate) {
    const Shape whole{s.a, s.b, s.c};
    const Tensor x = random_tensor(whole, 1, dtype);
    const Tensor per_channel = random_tensor({s.a, s.c}, 2, dtype);
    OnBoth{{whole, whole}, {x, per_channel}, dtype, start_of(accumulate)}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.spread_middle(out[0], in[1], 1.5, accumulate);
          k.mul_channels(out[1], in[0], in[1], accumulate);
        });
    const Tensor matrix = x.reshape({s.a * s.b, s.c});
    const Tensor per_row = random_tensor({s.a * s.b}, 3, dtype);
    const Tensor bias = random_tensor({s.c}, 4, dtype);
    const Tensor one = Tensor::full({}, 3, dtype);
    OnBoth{{matrix.shape(), matrix.shape()}, {matrix, per_row, one}, dtype, start_of(accumulate)}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.scale_rows(out[0], in[0], in[1], accumulate);
          k.broadcast(out[1], in[2], 0.5, accumulate);
        });
    for (const bool relu : {false, true}) {
      OnBoth{{matrix.shape(), matrix.shape()}, {matrix, bias}, dtype}(
          [&](const KernelTable& k, Tensors& out, const Tensors& in) {
            for (Tensor& y : out) y.copy_from(in[0]);
            k.bias_activation(out[0], in[1], relu);
            k.bias_activation(out[1], Tensor(), relu);
          });
    }
  });
}

TEST(CudaCurve, ValuesAndSlopesAreTheCpus) {
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    for (const std::int64_t count : {0, 1, 7, 1000}) {
      const Tensor x = random_tensor({count}, 1, dtype);
      Tensor wide = Tensor::empty({count}, dtype);
      kernels({}).scale(wide, x, 9, false);
      const Tensor grad = random_tensor({count}, 2, dtype);
      for (const Curve curve : {Curve::Relu6, Curve::Silu, Curve::Sigmoid, Curve::Tanh}) {
        for (const bool accumulate : {false, true}) {
          OnBoth{{{count}, {count}}, {wide, grad}, dtype, start_of(accumulate)}(
              [&](const KernelTable& k, Tensors& out, const Tensors& in) {
                Tensor y = Tensor::empty({count}, dtype, in[0].device());
                k.curve(y, in[0], curve);
                k.curve_backward(out[1], in[1], curve == Curve::Silu ? in[0] : y, curve, accumulate);
                out[0].copy_from(y);
              });
        }
      }
    }
  }
}

TEST(CudaDropout, TheMaskIsTheCpusBitForBit) {
  const Tensor keys = Tensor::from<std::int64_t>({5}, {0, 1, -7, std::int64_t{1} << 62, 99});
  for (const std::int64_t length : {1, 3, 4, 5, 129, 1024}) {
    for (const double p : {0.0, 0.1, 0.5, 0.999}) {
      for (const std::uint64_t layer : {std::uint64_t{0}, std::uint64_t{3}, ~std::uint64_t{0}}) {
        Tensor here = Tensor::empty({5, length}, DType::UInt8);
        Tensor there = Tensor::empty({5, length}, DType::UInt8, kGpu);
        kernels({}).dropout_mask(here, keys, layer, p);
        kernels(kGpu).dropout_mask(there, keys.to(kGpu), layer, p);
        EXPECT_EQ(values(there.to(Device{})), values(here)) << length << " " << p << " " << layer;
      }
    }
  }
  const Tensor x = random_tensor({5, 129}, 1, DType::Float32);
  Tensor mask = Tensor::empty({5, 129}, DType::UInt8);
  kernels({}).dropout_mask(mask, keys, 0, 0.3);
  for (const bool accumulate : {false, true}) {
    OnBoth{{{5, 129}}, {x, mask}, DType::Float32, start_of(accumulate)}(
        [&](const KernelTable& k, Tensors& out, const Tensors& in) {
          k.apply_mask(out[0], in[0], in[1], 1 / 0.7, accumulate);
        });
  }
}

// The GPU's softmax and losses against the CPU's, and what is said of a wrong target.

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
