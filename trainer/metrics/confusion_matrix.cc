#include <tutti/comm/base/format.h>
#include <tutti/trainer/metrics/confusion_matrix.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tutti::trainer {
namespace {

std::string padded(std::int64_t value, std::size_t width) {
  return comm::format("%*lld", static_cast<int>(width), static_cast<long long>(value));
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int classes) : classes_(classes) {
  if (classes < 1) throw std::invalid_argument("a confusion matrix of " + std::to_string(classes) + " classes");
  counts_.resize(static_cast<std::size_t>(classes) * static_cast<std::size_t>(classes));
}

std::int64_t ConfusionMatrix::count(int actual, int predicted) const {
  return counts_.at(static_cast<std::size_t>(actual) * static_cast<std::size_t>(classes_) +
                    static_cast<std::size_t>(predicted));
}

std::int64_t ConfusionMatrix::total() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

std::int64_t ConfusionMatrix::correct() const {
  std::int64_t sum = 0;
  for (int i = 0; i < classes_; ++i) sum += count(i, i);
  return sum;
}

double ConfusionMatrix::accuracy() const {
  const std::int64_t all = total();
  return all == 0 ? 0.0 : static_cast<double>(correct()) / static_cast<double>(all);
}

void ConfusionMatrix::add(int actual, int predicted) {
  for (const int label : {actual, predicted}) {
    if (label < 0 || label >= classes_) {
      throw std::out_of_range("class " + std::to_string(label) + " in a confusion matrix of " +
                              std::to_string(classes_) + " classes");
    }
  }
  ++counts_[static_cast<std::size_t>(actual) * static_cast<std::size_t>(classes_) +
            static_cast<std::size_t>(predicted)];
}

void ConfusionMatrix::add_batch(const tensor::Tensor& scores, const tensor::Tensor& targets) {
  if (scores.rank() != 2 || scores.shape()[1] != classes_ || targets.rank() != 1 ||
      targets.shape()[0] != scores.shape()[0]) {
    throw std::invalid_argument("a confusion matrix of " + std::to_string(classes_) + " classes takes scores (N, " +
                                std::to_string(classes_) + ") and targets (N); got " + scores.shape().to_string() +
                                " and " + targets.shape().to_string());
  }
  const tensor::Tensor wide = scores.contiguous().on_host().to(tensor::DType::Float64);
  const tensor::Tensor labels = targets.contiguous().on_host();
  const auto rows = static_cast<std::size_t>(scores.shape()[0]);
  const std::int64_t* actual = labels.data<std::int64_t>();
  for (std::size_t row = 0; row < rows; ++row) {
    if (actual[row] < 0 || actual[row] >= classes_) {
      throw std::out_of_range("target " + std::to_string(actual[row]) + " in row " + std::to_string(row) +
                              " is not one of the " + std::to_string(classes_) + " classes");
    }
  }
  const double* of_row = wide.data<double>();
  for (std::size_t row = 0; row < rows; ++row, of_row += classes_) {
    add(static_cast<int>(actual[row]), static_cast<int>(std::max_element(of_row, of_row + classes_) - of_row));
  }
}

std::vector<std::vector<std::int64_t>> ConfusionMatrix::rows() const {
  std::vector<std::vector<std::int64_t>> rows;
  for (int i = 0; i < classes_; ++i) {
    std::vector<std::int64_t>& row = rows.emplace_back();
    for (int j = 0; j < classes_; ++j) row.push_back(count(i, j));
  }
  return rows;
}

std::string ConfusionMatrix::to_table(const std::vector<std::string>& names, std::size_t columns) const {
  constexpr std::size_t kNumberWidth = 8;
  std::size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  const std::size_t label_width = kNumberWidth + (names.empty() ? 0 : longest + 1);
  const std::int64_t largest = *std::max_element(counts_.begin(), counts_.end());
  const std::size_t width = 2 + std::max(std::to_string(largest).size(), std::to_string(classes_).size());
  const std::size_t matrix_width = width * static_cast<std::size_t>(classes_);
  const bool whole = columns == 0 || label_width + matrix_width + 9 < columns;
  std::string table = whole ? "actual \\ predicted\n" + std::string(label_width, ' ')
                            : "  actual" + std::string(label_width - kNumberWidth, ' ') + "    right  taken for\n";
  for (int j = 0; whole && j < classes_; ++j) table += padded(j, width);
  if (whole) table += "    right\n";
  for (int i = 0; i < classes_; ++i) {
    std::int64_t row_total = 0;
    std::string label = padded(i, kNumberWidth);
    if (static_cast<std::size_t>(i) < names.size()) label += " " + names[static_cast<std::size_t>(i)];
    table += label + std::string(label_width - std::min(label_width, label.size()), ' ');
    int mistaken = i == 0 && classes_ > 1 ? 1 : 0;  // the other class that was predicted most often
    for (int j = 0; j < classes_; ++j) {
      if (whole) table += padded(count(i, j), width);
      row_total += count(i, j);
      if (j != i && count(i, j) > count(i, mistaken)) mistaken = j;
    }
    const double share = row_total == 0 ? 0 : static_cast<double>(count(i, i)) / static_cast<double>(row_total);
    table += comm::format("%7.1f %%", 100.0 * share);
    const auto times = mistaken == i ? 0 : static_cast<long long>(count(i, mistaken));
    if (!whole && times > 0) table += comm::format("  %d (%lld time%s)", mistaken, times, times == 1 ? "" : "s");
    table += "\n";
  }
  return table;
}

}  // namespace tutti::trainer
