#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/hooks/low_rank.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti::trainer {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void subtract(std::vector<double>& from, double factor, const std::vector<double>& what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= factor * what[i];
}

/// Rows of about this many elements are a thread's share.
std::int64_t grain(std::int64_t columns) { return std::max<std::int64_t>(1, (1 << 15) / columns); }

}  // namespace

void orthonormalise_columns(float* p, std::int64_t rows, std::int64_t columns) {
  constexpr double kDependent = 1e-24;  // what is left of the squared length of such a column, at most
  std::vector<std::vector<double>> done;
  for (std::int64_t c = 0; c < columns; ++c) {
    std::vector<double> column(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) column[static_cast<std::size_t>(i)] = p[i * columns + c];
    const double before = dot(column, column);
    for (const auto& other : done) subtract(column, dot(column, other), other);
    const double after = dot(column, column);
    const double scale = after <= kDependent * before ? 0 : 1 / std::sqrt(after);
    for (double& value : column) value *= scale;
    for (std::int64_t i = 0; i < rows; ++i) {
      p[i * columns + c] = static_cast<float>(column[static_cast<std::size_t>(i)]);
    }
    done.push_back(std::move(column));
  }
}

void product(float* to, const float* p, const float* q, std::int64_t rows, std::int64_t rank, std::int64_t columns) {
  tensor::parallel_for(rows, grain(columns), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* const row = to + i * columns;
      std::fill(row, row + columns, 0.0F);
      for (std::int64_t k = 0; k < rank; ++k) {
        const float factor = p[i * rank + k];
        const float* const other = q + k * columns;
        for (std::int64_t j = 0; j < columns; ++j) row[j] += factor * other[j];
      }
    }
  });
}

void subtract_product(float* to, const float* p, const float* q, std::int64_t rows, std::int64_t rank,
                      std::int64_t columns) {
  tensor::parallel_for(rows, grain(columns), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* const row = to + i * columns;
      for (std::int64_t k = 0; k < rank; ++k) {
        const float factor = p[i * rank + k];
        const float* const other = q + k * columns;
        for (std::int64_t j = 0; j < columns; ++j) row[j] -= factor * other[j];
      }
    }
  });
}

}  // namespace tutti::trainer
