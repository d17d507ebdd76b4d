// The GPU's copies and element-wise kernels against the CPU's, element for element.
#include <gtest/gtest.h>
#include <tutti/tensor/ops.h>

#include <cmath>

#include "../support.h"
#include "on_both.h"

namespace tutti::tensor::test {
namespace {

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

}  // namespace
}  // namespace tutti::tensor::test
