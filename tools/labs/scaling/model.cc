#include <tutti/tools/labs/scaling/model.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace tutti::labs::scaling {
namespace {

constexpr int kTerms = 3;
using Terms = std::array<double, kTerms>;

struct Observation {
  Terms terms{};
  double seconds = 0;
  double weight = 1;
};

Terms terms_of(const Features& features) { return {1, features.work, features.rounds}; }

double value_of(const Terms& terms, const Terms& coefficients) {
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += terms[i] * coefficients[i];
  return sum;
}

double relative_error(const Observation& seen, const Terms& coefficients) {
  return (value_of(seen.terms, coefficients) - seen.seconds) / seen.seconds;
}

/// Least squares with the terms in `used` only: normal equations, scaled, by Gauss-Jordan with pivots. Empty if they do
/// not determine the coefficients.
std::optional<Terms> least_squares(const std::vector<Observation>& all, const std::array<bool, kTerms>& used) {
  Terms scale{};
  for (const Observation& seen : all) {
    for (std::size_t i = 0; i < kTerms; ++i) scale[i] = std::max(scale[i], std::abs(seen.terms[i] / seen.seconds));
  }
  double matrix[kTerms][kTerms + 1] = {};
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (!used[i]) {
      matrix[i][i] = 1;
      continue;
    }
    if (scale[i] <= 0) return std::nullopt;
    for (const Observation& seen : all) {
      const double row = seen.weight * seen.terms[i] / seen.seconds / scale[i];
      for (std::size_t j = 0; j < kTerms; ++j) {
        if (used[j] && scale[j] > 0) matrix[i][j] += row * seen.terms[j] / seen.seconds / scale[j];
      }
      matrix[i][kTerms] += row;
    }
  }
  for (std::size_t column = 0; column < kTerms; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < kTerms; ++row) {
      if (std::abs(matrix[row][column]) > std::abs(matrix[pivot][column])) pivot = row;
    }
    if (std::abs(matrix[pivot][column]) < 1e-9) return std::nullopt;
    std::swap(matrix[pivot], matrix[column]);
    for (std::size_t row = 0; row < kTerms; ++row) {
      if (row == column) continue;
      const double factor = matrix[row][column] / matrix[column][column];
      for (std::size_t k = column; k <= kTerms; ++k) matrix[row][k] -= factor * matrix[column][k];
    }
  }
  Terms result{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (used[i]) result[i] = matrix[i][kTerms] / matrix[i][i] / scale[i];
  }
  return result;
}

/// Three terms: all eight choices of which are zero are tried, and the best without negative coefficients is taken.
Terms non_negative_fit(const std::vector<Observation>& all) {
  Terms best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned choice = 1; choice < (1U << kTerms); ++choice) {
    const std::array<bool, kTerms> used{(choice & 1U) != 0, (choice & 2U) != 0, (choice & 4U) != 0};
    const auto terms = least_squares(all, used);
    if (!terms || std::any_of(terms->begin(), terms->end(), [](double c) { return c < 0; })) continue;
    double error = 0;
    for (const Observation& seen : all) error += seen.weight * std::pow(relative_error(seen, *terms), 2);
    if (error < least * (1 - 1e-9)) {
      least = error;
      best = *terms;
    }
  }
  return best;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

Features features_of(const Layout& layout, double steps, int cores) {
  const double slowdown = std::max(1.0 / layout.threads, static_cast<double>(layout.most_on_a_host()) / cores);
  return {steps * slowdown, steps * std::ceil(std::log2(layout.ranks))};
}

double steps_with(const Results& results, int ranks) {
  const Row& row = results.rows.front();
  const double whole = static_cast<double>(row.median().steps) * row.layout.ranks;
  return std::ceil(whole / ranks);
}

Model fitted(const Results& results) {
  std::vector<Observation> all;
  for (const Row& row : results.rows) {
    const Timing run = row.median();
    all.push_back({terms_of(features_of(row.layout, static_cast<double>(run.steps), results.cores)), run.seconds, 1});
  }
  Terms terms = non_negative_fit(all);
  for (int pass = 0; pass < 10 && all.size() > kTerms; ++pass) {
    std::vector<double> errors;
    for (const Observation& seen : all) errors.push_back(std::abs(relative_error(seen, terms)));
    const double usual = std::max(1.345 * 1.4826 * median_of(errors), 0.005);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].weight = errors[i] <= usual ? 1 : usual / errors[i];
    terms = non_negative_fit(all);
  }
  Model model{terms[0], terms[1], terms[2], 0};
  for (const Observation& seen : all) {
    model.worst_error = std::max(model.worst_error, std::abs(relative_error(seen, terms)));
  }
  return model;
}

}  // namespace tutti::labs::scaling
