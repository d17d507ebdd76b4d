#include <tutti/tools/labs/lab_measure.h>
#include <tutti/tools/labs/real/timing.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace tutti::labs {
namespace {

/// Half of the median round trip between ranks 0 and 1, on rank 0; the other ranks take no part.
double one_way(Ranks& ranks, std::size_t bytes, int repetitions) {
  std::vector<unsigned char> data(bytes);
  std::vector<double> trips;
  for (int i = -2; i < repetitions && ranks.rank() < 2; ++i) {  // two to warm up
    const double begin = ranks.seconds();
    if (ranks.rank() == 0) ranks.send(std::span<const unsigned char>(data), 1);
    ranks.recv(std::span<unsigned char>(data), 1 - ranks.rank());
    if (ranks.rank() == 1) ranks.send(std::span<const unsigned char>(data), 0);
    if (i >= 0) trips.push_back(ranks.seconds() - begin);
  }
  if (trips.empty()) return 0;
  std::sort(trips.begin(), trips.end());
  return trips[trips.size() / 2] / 2;
}

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

/// Least squares of relative errors, so that short messages count as much as long ones, with Huber's weights, so that
/// single disturbed points do not bend it. Neither is negative. Needs two different lengths and positive times.
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

}  // namespace

MessageTimes time_messages(comm::ProcessGroup& group, Ranks& ranks, const TimingOptions& options) {
  MessageTimes times;
  for (std::size_t bytes = 8; bytes <= options.max_bytes; bytes *= 4) {
    const int repetitions = bytes <= 64 * 1024 ? 20 * options.repetitions : options.repetitions;
    double seconds = 0;
    detail::Call call;
    call.parameter = bytes;
    call.root = repetitions;
    call.buffers.push_back({&seconds, sizeof seconds, sizeof seconds});
    group.barrier();
    call_solution("message_seconds", detail::ElementType::UInt8, ranks, call);
    group.barrier();
    const double own = one_way(ranks, bytes, repetitions);
    times.measured.push_back({static_cast<double>(bytes), seconds});
    times.library_measured.push_back({static_cast<double>(bytes), own});
  }
  if (ranks.rank() != 0) return times;
  times.library_line = fit_line(times.library_measured);
  const bool usable = std::all_of(times.measured.begin(), times.measured.end(),
                                  [](const TimedMessage& message) { return message.seconds > 0; });
  if (usable) times.line = fit_line(times.measured);
  return times;
}

}  // namespace tutti::labs
