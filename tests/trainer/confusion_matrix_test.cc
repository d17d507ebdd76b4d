#include <gtest/gtest.h>
#include <tutti/trainer/metrics/confusion_matrix.h>

#include <stdexcept>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;

TEST(ConfusionMatrix, CountsActualByPredicted) {
  ConfusionMatrix matrix(3);
  matrix.add(0, 0);
  matrix.add(0, 2);
  matrix.add(2, 2);
  EXPECT_EQ(matrix.count(0, 2), 1);
  EXPECT_EQ(matrix.count(2, 0), 0);
  EXPECT_EQ(matrix.total(), 3);
  EXPECT_EQ(matrix.correct(), 2);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 2.0 / 3.0);
  EXPECT_EQ(matrix.rows(), (std::vector<std::vector<std::int64_t>>{{1, 0, 1}, {0, 0, 0}, {0, 0, 1}}));
}

TEST(ConfusionMatrix, EmptyHasNoAccuracyButNoCrash) {
  EXPECT_EQ(ConfusionMatrix(2).accuracy(), 0.0);
  EXPECT_NE(ConfusionMatrix(2).to_table().find("0.0 %"), std::string::npos);
}

TEST(ConfusionMatrix, BatchTakesTheFirstLargestScore) {
  ConfusionMatrix matrix(2);
  matrix.add_batch(Tensor::from<float>(Shape{3, 2}, {1, 1, 0, 1, 5, -5}),
                   Tensor::from<std::int64_t>(Shape{3}, {0, 0, 1}));
  EXPECT_EQ(matrix.rows(), (std::vector<std::vector<std::int64_t>>{{1, 1}, {1, 0}}));
  matrix.add_batch(Tensor::from<double>(Shape{1, 2}, {0, 1}), Tensor::from<std::int64_t>(Shape{1}, {1}));
  EXPECT_EQ(matrix.count(1, 1), 1);
}

TEST(ConfusionMatrix, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ConfusionMatrix(0), std::invalid_argument);
  ConfusionMatrix matrix(2);
  EXPECT_THROW(matrix.add(0, 2), std::out_of_range);
  EXPECT_THROW(matrix.add(-1, 0), std::out_of_range);
  const Tensor scores = Tensor::zeros(Shape{2, 2});
  EXPECT_THROW(matrix.add_batch(Tensor::zeros(Shape{2, 3}), Tensor::from<std::int64_t>(Shape{2}, {0, 0})),
               std::invalid_argument);
  EXPECT_THROW(matrix.add_batch(scores, Tensor::from<std::int64_t>(Shape{1}, {0})), std::invalid_argument);
  EXPECT_THROW(matrix.add_batch(scores, Tensor::from<std::int64_t>(Shape{2}, {0, 2})), std::out_of_range);
  EXPECT_EQ(matrix.total(), 0);
}

TEST(ConfusionMatrix, TableHasARowPerClass) {
  ConfusionMatrix matrix(2);
  for (int i = 0; i < 12; ++i) matrix.add(1, 1);
  matrix.add(0, 1);
  EXPECT_EQ(matrix.to_table(),
            "actual \\ predicted\n"
            "           0   1    right\n"
            "       0   0   1    0.0 %\n"
            "       1   0  12  100.0 %\n");
  EXPECT_EQ(matrix.to_table({"sea", "beach"}),
            "actual \\ predicted\n"
            "                 0   1    right\n"
            "       0 sea     0   1    0.0 %\n"
            "       1 beach   0  12  100.0 %\n");
  EXPECT_EQ(matrix.to_table({"sea", "beach"}, 30),
            "  actual          right  taken for\n"
            "       0 sea      0.0 %  1 (1 time)\n"
            "       1 beach  100.0 %\n");
  EXPECT_EQ(matrix.to_table({"sea", "beach"}, 40), matrix.to_table({"sea", "beach"}));
}

}  // namespace
}  // namespace tutti::trainer
