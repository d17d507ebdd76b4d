// The GPU's sums, passes with broadcast factors, curves and masks against the CPU's.
#include <gtest/gtest.h>
#include <tutti/tensor/ops.h>

#include "on_both.h"

namespace tutti::tensor::test {
namespace {

using Tensors = std::vector<Tensor>;

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

}  // namespace
}  // namespace tutti::tensor::test
