// ConfusionMatrix: how often class `actual` was taken for class `predicted`. Counts, so that the sum over ranks is
// exact and does not depend on their number. Thread-safety: none; one thread at a time.
#pragma once

#include <tutti/tensor/tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::trainer {

class ConfusionMatrix {
 public:
  /// Throws std::invalid_argument unless classes >= 1.
  explicit ConfusionMatrix(int classes);

  int classes() const { return classes_; }
  std::int64_t count(int actual, int predicted) const;
  std::int64_t total() const;
  std::int64_t correct() const;
  /// correct / total; 0 when nothing was counted.
  double accuracy() const;

  /// Throws std::out_of_range naming the class found.
  void add(int actual, int predicted);

  /// scores (N, classes) float32 or float64, targets int64 (N). The prediction is the first largest score, as argmax.
  /// Throws std::invalid_argument naming the shapes, std::out_of_range naming the row; unchanged on failure.
  void add_batch(const tensor::Tensor& scores, const tensor::Tensor& targets);

  /// Row-major counts, actual x predicted: what is summed over ranks.
  std::span<std::int64_t> counts() { return counts_; }
  std::span<const std::int64_t> counts() const { return counts_; }

  /// The same as nested lists: rows()[actual][predicted].
  std::vector<std::vector<std::int64_t>> rows() const;

  /// A table with one row per actual class, and each class's share of right predictions. `names`, if any, stand beside
  /// the rows' numbers; the columns have the numbers alone. Where that is wider than `columns` (0: no limit) a row
  /// tells the class that its samples were taken for most often instead: "2 (9 times)".
  std::string to_table(const std::vector<std::string>& names = {}, std::size_t columns = 0) const;

 private:
  int classes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace tutti::trainer
