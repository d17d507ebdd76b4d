// alpha and beta of "a message of m bytes takes alpha + m beta" from measured times.
#pragma once

#include <span>

namespace tutti::labs {

struct TimedMessage {
  double bytes = 0;
  double seconds = 0;  // a median
};

struct FittedLine {
  double alpha = 0;        // seconds
  double beta = 0;         // seconds per byte
  double worst_error = 0;  // relative, of a point
};

/// Least squares of relative errors, so that short messages count as much as long ones, with Huber's weights, so that
/// single disturbed points do not bend it. Neither is negative. Needs two different lengths and positive times.
FittedLine fit_line(std::span<const TimedMessage> messages);

}  // namespace tutti::labs
