#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/line_chart.h>
#include <tutti/trainer/report/page/sections.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tutti::trainer::page {
namespace {

constexpr std::size_t kPointsOfALine = 400;

/// Loss of each step over all ranks whose records are here, at the epoch that it belongs to: 0.5 is the middle of the
/// first one.
struct Steps {
  Points loss;
  Points learning_rate;
};

Steps steps_of(const RunData& run) {
  struct Sum {
    double loss = 0;
    double samples = 0;
  };
  std::map<std::int64_t, Sum> sums;
  std::map<int, std::int64_t> last_step;  // by epoch
  for (const RankSteps& rank : run.steps) {
    for (const StepRecord& record : rank.records) {
      Sum& sum = sums[record.global_step];
      sum.loss += record.loss * static_cast<double>(record.samples);
      sum.samples += static_cast<double>(record.samples);
      std::int64_t& last = last_step[record.epoch];
      last = std::max(last, record.step);
    }
  }
  std::int64_t longest = 0;  // an epoch that was cut short is no shorter for that
  for (const auto& [epoch, step] : last_step) longest = std::max(longest, step + 1);
  Steps steps;
  if (run.steps.empty()) return steps;
  for (const StepRecord& record : run.steps.front().records) {
    const double x = record.epoch - 1 + static_cast<double>(record.step + 1) / static_cast<double>(longest);
    const Sum& sum = sums[record.global_step];
    steps.loss.emplace_back(x, sum.loss / sum.samples);
    steps.learning_rate.emplace_back(x, record.learning_rate);
  }
  return steps;
}

template <typename Value>
Points by_epoch(const RunData& run, const Value& value) {
  Points points;
  for (const EpochReport& epoch : run.report.epochs) {
    const std::optional<double> y = value(epoch);
    if (y) points.emplace_back(epoch.epoch, *y);
  }
  return points;
}

std::string epoch_table(const RunData& run) {
  std::string rows;
  for (const EpochReport& epoch : run.report.epochs) {
    rows += "<tr><td>" + std::to_string(epoch.epoch) + "</td><td>" + number(epoch.train_loss, 5) + "</td><td>" +
            (epoch.test_loss ? number(*epoch.test_loss, 5) : "") + "</td><td>" +
            (epoch.test_accuracy ? percent(*epoch.test_accuracy, 2) : "") + "</td><td>" + duration(epoch.seconds) +
            "</td></tr>";
  }
  return "<details><summary>The epochs as a table</summary><div class=\"scroll\"><table class=\"plain\"><tr>"
         "<th>epoch</th><th>train loss</th><th>test loss</th><th>test accuracy</th><th>training time</th></tr>" +
         rows + "</table></div></details>";
}

bool changes(const Points& points) {
  return std::any_of(points.begin(), points.end(), [&](const auto& p) { return p.second != points.front().second; });
}

}  // namespace

std::string curves_section(const RunData& run) {
  const Steps steps = steps_of(run);
  const Points train = by_epoch(run, [](const EpochReport& e) { return std::optional(e.train_loss); });
  const Points test = by_epoch(run, [](const EpochReport& e) { return e.test_loss; });
  const Points accuracy = by_epoch(run, [](const EpochReport& e) { return e.test_accuracy; });
  std::vector<Series> losses;
  if (!steps.loss.empty()) {
    losses.push_back(
        {.name = "each step", .colour = 0, .points = thinned(steps.loss, kPointsOfALine), .is_faint = true});
  }
  const bool few = run.report.epochs.size() <= 60;
  if (!train.empty()) losses.push_back({.name = "training", .colour = 0, .points = train, .has_markers = few});
  if (!test.empty()) losses.push_back({.name = "test", .colour = 1, .points = test, .has_markers = few});
  if (losses.empty()) return section("curves", "Curves", absent("Nothing was recorded of loss or accuracy."));
  std::string charts = line_chart({.title = "Loss by epoch", .x_name = "epoch", .y_name = "Loss"}, losses);
  if (!accuracy.empty()) {
    charts +=
        line_chart({.title = "Accuracy by epoch", .x_name = "epoch", .y_name = "Test accuracy", .as_percent = true},
                   {{.name = "test accuracy", .colour = 2, .points = accuracy, .has_markers = few}});
  }
  if (!steps.learning_rate.empty() && changes(steps.learning_rate)) {
    charts +=
        line_chart({.title = "Learning rate", .x_name = "epoch", .y_name = "Learning rate", .from_zero = true},
                   {{.name = "learning rate", .colour = 3, .points = thinned(steps.learning_rate, kPointsOfALine)}});
  }
  return section("curves", "Curves",
                 "<div class=\"charts\">" + charts + "</div>" + (run.report.epochs.empty() ? "" : epoch_table(run)));
}

}  // namespace tutti::trainer::page
