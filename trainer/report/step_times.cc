#include <tutti/trainer/report/step_times.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <unordered_map>

namespace tutti::trainer {
namespace {

constexpr std::size_t kSlowStepsShown = 5;
constexpr double kSlowStep = 5;  // times the usual

double own_seconds(const StepRecord& record) { return std::max(0.0, record.seconds - record.wait_seconds); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A single hiccup makes no straggler; one that comes back every few steps does.
double trimmed_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t kept = values.size() - values.size() / 100 - (values.size() >= 10 ? 1 : 0);
  return std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(kept), 0.0) /
         static_cast<double>(kept);
}

std::span<const StepRecord> without_warm_up(const RankSteps& steps) {
  return std::span(steps.records).subspan(steps.records.size() >= 10 ? 1 : 0);
}

RankTimes times_of(const RankSteps& steps) {
  RankTimes times{.rank = steps.rank};
  std::vector<double> own;
  for (const StepRecord& record : without_warm_up(steps)) {
    if (!std::isfinite(record.seconds) || !std::isfinite(record.wait_seconds)) continue;
    times.seconds += record.seconds;
    times.wait_seconds += record.wait_seconds;
    own.push_back(own_seconds(record));
  }
  times.steps = static_cast<std::int64_t>(own.size());
  if (own.empty()) return times;
  times.seconds /= static_cast<double>(own.size());
  times.wait_seconds /= static_cast<double>(own.size());
  times.own_usual = trimmed_mean(own);
  times.own_median = median(std::move(own));
  return times;
}

/// In how many of the common steps each rank had the longest own time.
void count_last(const std::vector<RankSteps>& steps, std::vector<RankTimes>& ranks) {
  struct Step {
    std::size_t ranks = 0;  // that have it
    std::size_t last = 0;
    double longest = -1;
  };
  std::unordered_map<std::int64_t, Step> by_number;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const StepRecord& record : steps[i].records) {
      Step& step = by_number[record.global_step];
      ++step.ranks;
      if (own_seconds(record) <= step.longest) continue;
      step.longest = own_seconds(record);
      step.last = i;
    }
  }
  std::erase_if(by_number, [&](const auto& entry) { return entry.second.ranks < steps.size(); });
  for (const auto& [number, step] : by_number) ranks[step.last].last_share += 1;
  for (RankTimes& rank : ranks) rank.last_share /= static_cast<double>(std::max<std::size_t>(1, by_number.size()));
}

void find_stragglers(std::vector<RankTimes>& ranks) {
  for (RankTimes& rank : ranks) {
    std::vector<double> others;
    for (const RankTimes& other : ranks) {
      if (other.rank != rank.rank && other.steps > 0) others.push_back(other.own_usual);
    }
    const double usual = median(std::move(others));
    if (usual > 0) rank.slowdown = rank.own_usual / usual;
    rank.is_straggler = rank.slowdown >= kStragglerSlowdown;
  }
}

std::vector<SlowStep> slow_steps(const std::vector<RankSteps>& steps, const std::vector<RankTimes>& ranks) {
  std::vector<SlowStep> slow;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const StepRecord& record : without_warm_up(steps[i])) {
      if (own_seconds(record) <= kSlowStep * ranks[i].own_median) continue;
      slow.push_back({.rank = steps[i].rank, .record = record, .usual_seconds = ranks[i].own_median});
    }
  }
  const auto worse = [](const SlowStep& a, const SlowStep& b) { return own_seconds(a.record) > own_seconds(b.record); };
  const std::size_t shown = std::min(kSlowStepsShown, slow.size());
  std::partial_sort(slow.begin(), slow.begin() + static_cast<std::ptrdiff_t>(shown), slow.end(), worse);
  slow.resize(shown);
  return slow;
}

}  // namespace

StepTimes step_times(const std::vector<RankSteps>& steps) {
  StepTimes times;
  if (steps.empty()) return times;
  for (const RankSteps& rank : steps) times.ranks.push_back(times_of(rank));
  count_last(steps, times.ranks);
  find_stragglers(times.ranks);
  times.slow_steps = slow_steps(steps, times.ranks);
  return times;
}

}  // namespace tutti::trainer
