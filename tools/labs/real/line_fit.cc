#include <tutti/tools/labs/real/line_fit.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tutti::labs {
namespace {

constexpr int kPasses = 20;
constexpr double kSmallestScale = 1e-4;  // relative errors below this are none

double error_of(const TimedMessage& message, const FittedLine& line) {
  return (line.alpha + line.beta * message.bytes) / message.seconds - 1;
}

FittedLine weighted(std::span<const TimedMessage> messages, const std::vector<double>& weights) {
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const double a = 1 / messages[i].seconds, b = messages[i].bytes / messages[i].seconds;
    aa += weights[i] * a * a;
    ab += weights[i] * a * b;
    bb += weights[i] * b * b;
    a1 += weights[i] * a;
    b1 += weights[i] * b;
  }
  const double determinant = aa * bb - ab * ab;
  FittedLine line;
  if (determinant > 1e-12 * aa * bb) {
    line.alpha = (a1 * bb - b1 * ab) / determinant;
    line.beta = (b1 * aa - a1 * ab) / determinant;
  }
  if (line.beta <= 0) line = {aa > 0 ? a1 / aa : 0, 0, 0};
  if (line.alpha < 0) line = {0, bb > 0 ? b1 / bb : 0, 0};
  return line;
}

}  // namespace

FittedLine fit_line(std::span<const TimedMessage> messages) {
  std::vector<double> weights(messages.size(), 1), errors(messages.size());
  FittedLine line = weighted(messages, weights);
  for (int pass = 0; pass < kPasses && messages.size() > 2; ++pass) {
    for (std::size_t i = 0; i < messages.size(); ++i) errors[i] = std::abs(error_of(messages[i], line));
    std::vector<double> sorted = errors;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    const double usual = std::max(1.345 * 1.4826 * sorted[sorted.size() / 2], kSmallestScale);
    for (std::size_t i = 0; i < messages.size(); ++i) weights[i] = errors[i] <= usual ? 1 : usual / errors[i];
    line = weighted(messages, weights);
  }
  for (const TimedMessage& message : messages) {
    line.worst_error = std::max(line.worst_error, std::abs(error_of(message, line)));
  }
  return line;
}

}  // namespace tutti::labs
