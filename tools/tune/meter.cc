#include <tutti/tools/tune/meter.h>

#include <algorithm>
#include <chrono>
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
  if (calls_ == 0) {
    call_();  // connections are opened, pages are touched
    const double first = seconds_of(group, call_, 1);
    calls_ = static_cast<std::size_t>(std::clamp(kBatchSeconds / first, kFewestCalls, kMostCalls));
  }
  call_();  // whatever was measured in between has had the caches
  batches_.push_back(seconds_of(group, call_, calls_));
  group.use_algorithm("");
}

double Meter::seconds() const {
  if (batches_.empty()) return 0;
  std::vector<double> sorted = batches_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace tutti::tools
