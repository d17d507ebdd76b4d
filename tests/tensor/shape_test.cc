#include <gtest/gtest.h>
#include <tutti/tensor/device.h>
#include <tutti/tensor/dtype.h>
#include <tutti/tensor/shape.h>
#include <tutti/tests/tensor/support.h>

#include <stdexcept>

namespace tutti::tensor {
namespace {

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
}  // namespace tutti::tensor
