#include <tutti/nn/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::nn {
namespace {

void require(bool fits, const char* schedule, const char* argument, double value, const char* expected) {
  if (fits) return;
  throw std::invalid_argument(std::string(schedule) + ": " + argument + " is " + std::to_string(value) + ", expected " +
                              expected);
}

void check_rate(const char* schedule, const char* argument, double value) {
  require(value >= 0 && std::isfinite(value), schedule, argument, value, "0 or more");
}

// From `start` at part 0 to `end` at part 1.
double along_cosine(double start, double end, double part) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

Schedule constant_rate(double rate) {
  check_rate("constant_rate", "rate", rate);
  return [=](std::int64_t) { return rate; };
}

Schedule step_decay(double rate, std::int64_t interval, double factor) {
  check_rate("step_decay", "rate", rate);
  check_rate("step_decay", "factor", factor);
  require(interval >= 1, "step_decay", "interval", static_cast<double>(interval), "1 or more");
  return [=](std::int64_t step) { return rate * std::pow(factor, static_cast<double>(step / interval)); };
}

Schedule cosine_annealing(double rate, std::int64_t total, double lowest) {
  check_rate("cosine_annealing", "rate", rate);
  check_rate("cosine_annealing", "lowest", lowest);
  require(total >= 1, "cosine_annealing", "total", static_cast<double>(total), "1 or more");
  return [=](std::int64_t step) {
    return along_cosine(rate, lowest, static_cast<double>(std::min(step, total)) / static_cast<double>(total));
  };
}

Schedule one_cycle(const OneCycleOptions& options) {
  check_rate("one_cycle", "highest", options.highest);
  require(options.total >= 2, "one_cycle", "total", static_cast<double>(options.total), "2 or more");
  require(options.rise >= 0 && options.rise <= 1, "one_cycle", "rise", options.rise, "0 to 1");
  require(options.first_divisor > 0, "one_cycle", "first_divisor", options.first_divisor, "more than 0");
  require(options.last_divisor > 0, "one_cycle", "last_divisor", options.last_divisor, "more than 0");
  const double first = options.highest / options.first_divisor;
  const double last = first / options.last_divisor;
  // torch counts the peak's step from 0 and may put it before the first step or between two; so do we.
  const double end = static_cast<double>(options.total) - 1;
  const double peak = options.rise * static_cast<double>(options.total) - 1;
  return [=, highest = options.highest](std::int64_t step) {
    const double at = std::min(static_cast<double>(step), end);
    if (at <= peak) return peak > 0 ? along_cosine(first, highest, at / peak) : highest;
    return along_cosine(highest, last, (at - peak) / (end - peak));
  };
}

Schedule with_warm_up(Schedule schedule, std::int64_t steps) {
  require(steps >= 0, "with_warm_up", "steps", static_cast<double>(steps), "0 or more");
  return [schedule = std::move(schedule), steps](std::int64_t step) {
    const double rate = schedule(step);
    return step < steps ? rate * static_cast<double>(step + 1) / static_cast<double>(steps) : rate;
  };
}

}  // namespace tutti::nn
