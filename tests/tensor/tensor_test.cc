#include <gtest/gtest.h>
#include <tutti/tensor/device.h>
#include <tutti/tensor/dtype.h>
#include <tutti/tensor/shape.h>
#include <tutti/tensor/tensor.h>
#include <tutti/tests/support/expect_text.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "support.h"

namespace tutti::tensor::test {
namespace {

Tensor counting(const Shape& shape) {
  std::vector<double> numbers(static_cast<std::size_t>(shape.numel()));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return Tensor::from(shape, numbers);
}

TEST(Tensor, UndefinedUntilMade) {
  Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_THROW(tensor.raw(), std::logic_error);
  EXPECT_THROW(tensor.fill(1), std::logic_error);
  EXPECT_FALSE(tensor.clone().defined());
}

TEST(Tensor, MakesAndFills) {
  EXPECT_EQ(values(Tensor::full({2, 2}, 3.5)), (std::vector<double>{3.5, 3.5, 3.5, 3.5}));
  EXPECT_EQ(values(Tensor::zeros({3}, DType::UInt8)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(Tensor::full({}, 7, DType::Int64).item(), 7);
  EXPECT_EQ(Tensor::zeros({0, 4}).numel(), 0);
  EXPECT_EQ(Tensor::empty({3, 5}).nbytes(), 60u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor::empty({3}).raw()) % 64, 0u);
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor a = Tensor::zeros({2});
  Tensor b = a;
  EXPECT_TRUE(a.shares_storage(b));
  EXPECT_EQ(a.use_count(), 2);
  Tensor c = a.clone();
  b.fill(1);
  EXPECT_EQ(values(a), (std::vector<double>{1, 1}));
  EXPECT_EQ(values(c), (std::vector<double>{0, 0}));
}

TEST(Tensor, OverKeepsTheOwnerAlive) {
  auto owner = std::make_shared<std::vector<float>>(6, 2.0F);
  std::weak_ptr<std::vector<float>> watch = owner;
  float* memory = owner->data();
  Tensor view = Tensor::over(memory, std::move(owner), {2, 3}, DType::Float32);
  view.fill(5);
  EXPECT_EQ(memory[5], 5.0F);
  EXPECT_FALSE(watch.expired());
  view = {};
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, Reshape) {
  const Tensor a = counting({2, 3, 4});
  EXPECT_EQ(a.reshape({6, -1}).shape(), (Shape{6, 4}));
  EXPECT_TRUE(a.reshape({24}).shares_storage(a));
  const Tensor turned = a.transpose(0, 2);
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_FALSE(turned.reshape({24}).shares_storage(a));
  EXPECT_EQ(values(turned.reshape({24}))[1], 12);
  EXPECT_EQ(Tensor::zeros({0, 3}).reshape({3, 0}).shape(), (Shape{3, 0}));
  EXPECT_THROW(a.reshape({-1, -1}), std::invalid_argument);
  EXPECT_THROW(a.reshape({0, -1}), std::invalid_argument);
  EXPECT_EQ(text_of<std::invalid_argument>([&] {
              (void)a.reshape({5, -1});
            }),
            "reshape: (2, 3, 4) has 24 elements and cannot become (5, -1)");
}

TEST(Tensor, ErrorTexts) {
  Tensor a = Tensor::zeros({2, 3});
  EXPECT_EQ(text_of<std::invalid_argument>([&] { a.data<double>(); }),
            "data<float64>() of a float32 tensor of shape (2, 3)");
  EXPECT_EQ(text_of<std::invalid_argument>([&] { (void)a.narrow(1, 2, 2); }),
            "narrow: [2, 2 + 2) is outside axis 1 of shape (2, 3)");
  EXPECT_EQ(text_of<std::invalid_argument>([&] {
              a.copy_from(Tensor::zeros({3, 2}, DType::Float64));
            }),
            "copy_from: cannot copy float64 (3, 2) into float32 (2, 3)");
  EXPECT_EQ(text_of<std::invalid_argument>([&] { (void)a.item(); }),
            "item() of shape (2, 3): only a tensor of one element has one value");
  EXPECT_EQ(text_of<std::invalid_argument>([] { Tensor::from<float>({2}, {1.0F}); }),
            "Tensor::from: 1 values given for shape (2), which has 2");
  EXPECT_THROW(Tensor::empty({2, -1}), std::invalid_argument);
  EXPECT_THROW(Tensor::over(nullptr, nullptr, {1}, DType::Float32), std::invalid_argument);
  EXPECT_THROW((void)a.transpose(0, 2), std::out_of_range);
  EXPECT_THROW((void)a.stride(-3), std::out_of_range);
}

TEST(Tensor, OutOfMemoryNamesTheSize) {
  tutti::test::expect_parts(text_of<std::runtime_error>([] { Tensor::empty({std::int64_t{1} << 50}); }),
                            {"out of memory: a tensor of 4503599627370496 bytes"});
}

TEST(Tensor, ConvertsBetweenAllTypes) {
  const Tensor source = Tensor::from<double>({4}, {0, 1, 200, 255});
  for (const DType from : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
    for (const DType to : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
      EXPECT_EQ(values(source.to(from).to(to)), (std::vector<double>{0, 1, 200, 255})) << name(from) << name(to);
    }
  }
}

TEST(Tensor, ConversionOfWhatDoesNotFitIsDefined) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor wild = Tensor::from<double>({4}, {nan, 1e300, -5, 254.9});
  EXPECT_EQ(values(wild.to(DType::UInt8)), (std::vector<double>{0, 255, 0, 254}));
  EXPECT_EQ(wild.to(DType::Int64).narrow(0, 1, 1).item(),
            static_cast<double>(std::numeric_limits<std::int64_t>::max()));
}

// A view made by random narrows and transposes, beside the plain index arithmetic that says what it must hold.
struct Model {
  Tensor whole;
  Tensor view;
  std::vector<std::vector<std::int64_t>> at;  // per axis: offset of each index into the counting tensor

  std::vector<double> expected() const {
    std::vector<std::int64_t> flat{0};
    for (const std::vector<std::int64_t>& axis : at) {
      std::vector<std::int64_t> next;
      for (const std::int64_t base : flat) {
        for (const std::int64_t offset : axis) next.push_back(base + offset);
      }
      flat = std::move(next);
    }
    return {flat.begin(), flat.end()};
  }
};

Model random_view(std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<std::int64_t> extents(static_cast<std::size_t>(draw(1, 5)));
  for (std::int64_t& extent : extents) extent = draw(1, 4);
  Model model;
  model.whole = counting(Shape(std::span<const std::int64_t>(extents)));
  model.view = model.whole;
  for (int axis = 0; axis < model.view.rank(); ++axis) {
    std::vector<std::int64_t>& offsets = model.at.emplace_back();
    for (std::int64_t i = 0; i < model.view.shape()[axis]; ++i) offsets.push_back(i * model.view.stride(axis));
  }
  for (int step = 0; step < 4; ++step) {
    const auto a = static_cast<std::size_t>(draw(0, model.view.rank() - 1));
    if (draw(0, 1) == 0) {
      const auto b = static_cast<std::size_t>(draw(0, model.view.rank() - 1));
      model.view = model.view.transpose(static_cast<int>(a), static_cast<int>(b));
      std::swap(model.at[a], model.at[b]);
    } else {
      const auto size = static_cast<std::int64_t>(model.at[a].size());
      const std::int64_t start = draw(0, size - 1);
      const std::int64_t length = draw(0, 9) == 0 ? 0 : draw(1, size - start);
      model.view = model.view.narrow(static_cast<int>(a), start, length);
      model.at[a] = {model.at[a].begin() + start, model.at[a].begin() + start + length};
      if (length == 0) break;
    }
  }
  return model;
}

TEST(TensorViews, HoldWhatIndexArithmeticSays) {
  std::mt19937 random(20);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const Model model = random_view(random);
    ASSERT_EQ(values(model.view.clone()), model.expected());
    ASSERT_TRUE(model.view.contiguous().is_contiguous());
    ASSERT_EQ(values(model.view.reshape({model.view.numel()})), model.expected());
    ASSERT_EQ(values(model.view.to(DType::Float32)), model.expected());
  }
}

TEST(TensorViews, WritesReachExactlyTheirElements) {
  std::mt19937 random(21);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    Model model = random_view(random);
    std::vector<double> whole = values(model.whole);
    for (const double index : model.expected()) whole[static_cast<std::size_t>(index)] = -1;
    const Tensor replacement = Tensor::full(model.view.shape(), -1, DType::Float64);
    if (round % 2 == 0) {
      model.view.fill(-1);
    } else {
      model.view.copy_from(replacement);
    }
    ASSERT_EQ(values(model.whole), whole);
  }
  Tensor whole = counting({3, 4});
  whole.narrow(1, 1, 2).transpose(0, 1).fill(-1);
  EXPECT_EQ(values(whole), (std::vector<double>{0, -1, -1, 3, 4, -1, -1, 7, 8, -1, -1, 11}));
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.to_string(), "()");
  EXPECT_EQ((Shape{64, 784}).numel(), 64 * 784);
  EXPECT_EQ((Shape{64, 784}).to_string(), "(64, 784)");
  EXPECT_EQ((Shape{3, 0, 5}).numel(), 0);
  EXPECT_EQ((Shape{2, 3, 4})[-1], 4);
  EXPECT_EQ((Shape{2, 3, 4})[0], 2);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_THROW((Shape{2, -2}), std::invalid_argument);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), std::invalid_argument);
  EXPECT_THROW((Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}), std::invalid_argument);
  EXPECT_THROW((Shape{std::int64_t{1} << 40, 0, std::int64_t{1} << 40}), std::invalid_argument);
  const Shape two{2, 3};
  EXPECT_EQ(test::text_of<std::out_of_range>([&] { (void)two[2]; }), "axis 2 of shape (2, 3), which has 2 dimensions");
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::Float32), 4u);
  EXPECT_EQ(size_of(DType::Float64), 8u);
  EXPECT_EQ(size_of(DType::Int64), 8u);
  EXPECT_EQ(size_of(DType::UInt8), 1u);
  EXPECT_EQ(name(DType::Float32), "float32");
  EXPECT_EQ(name(DType::UInt8), "uint8");
}

}  // namespace
}  // namespace tutti::tensor::test
