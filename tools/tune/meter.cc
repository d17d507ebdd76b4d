#include <tutti/tools/tune/meter.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBatchSeconds = 3e-3;  // longer than a scheduler's time slice, where ranks share processors
constexpr double kFewestCalls = 2;      // each finds the caches as a call has left them
constexpr double kMostCalls = 300;
constexpr double kShortest = 1e-8;  // seconds: nothing took less

/// Of all ranks; equal on all of them.
double longest(comm::ProcessGroup& group, double seconds) {
  group.all_reduce(std::span<double>(&seconds, 1), comm::ReduceOp::Max);
  return std::max(kShortest, seconds);
}

double seconds_of(comm::ProcessGroup& group, const std::function<void()>& call, std::size_t calls) {
  group.barrier();
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) call();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return longest(group, seconds) / static_cast<double>(calls);
}

}  // namespace

Meter::Meter(std::string algorithm, std::function<void()> call)
    : algorithm_(std::move(algorithm)), call_(std::move(call)) {}

void Meter::measure(comm::ProcessGroup& group) {
  group.use_algorithm(algorithm_);
  call_();  // whatever was measured in between has had the caches; at first connections are opened, pages are touched
  const double expected = batches_.empty() ? seconds_of(group, call_, 1) : seconds();
  const double calls = std::clamp(kBatchSeconds / expected, kFewestCalls, kMostCalls);
  batches_.push_back(seconds_of(group, call_, static_cast<std::size_t>(calls)));
  group.use_algorithm("");
}

double Meter::seconds() const {
  if (batches_.empty()) return 0;
  std::vector<double> sorted = batches_;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = (sorted.size() + 1) / 2;
  return std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(half), 0.0) /
         static_cast<double>(half);
}

}  // namespace tutti::tools
