#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/sections.h>
#include <tutti/trainer/report/step_times.h>

#include <algorithm>
#include <cmath>

namespace tutti::trainer::page {
namespace {

constexpr std::size_t kMostRanksListed = 64;
constexpr std::size_t kMapColumns = 120;

/// Which ranks a page shows when there are many: the slowest, in order of rank.
std::vector<RankTimes> shown_ranks(const StepTimes& times) {
  std::vector<RankTimes> ranks = times.ranks;
  if (ranks.size() <= kMostRanksListed) return ranks;
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.slowdown > b.slowdown; });
  ranks.resize(kMostRanksListed);
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return ranks;
}

std::string verdict(const StepTimes& times) {
  std::string text;
  for (const RankTimes& rank : times.ranks) {
    if (!rank.is_straggler) continue;
    text += "<p class=\"warning\"><b>Rank " + std::to_string(rank.rank) + " is a straggler</b>: of a step it takes " +
            duration(rank.own_median) + " for itself (median), " + number(rank.slowdown, 3) +
            " times what the other ranks take, and the others waited for it in " + percent(rank.last_share, 0) +
            " of the steps.</p>";
  }
  if (text.empty() && times.ranks.size() > 1) {
    text = "<p class=\"good\">No straggler: no rank takes more than " + number(kStragglerSlowdown, 3) +
           " times what the others take for a step.</p>";
  }
  if (times.slow_steps.empty()) return text;
  text += "<p>Single steps that took far longer than usual: ";
  for (std::size_t i = 0; i < times.slow_steps.size(); ++i) {
    const SlowStep& slow = times.slow_steps[i];
    text += std::string(i > 0 ? "; " : "") + "rank " + std::to_string(slow.rank) + ", epoch " +
            std::to_string(slow.record.epoch) + ", step " + std::to_string(slow.record.step) + ": " +
            duration(slow.record.seconds - slow.record.wait_seconds) + " instead of " + duration(slow.usual_seconds);
  }
  return text + ".</p>";
}

std::string bars(const std::vector<RankTimes>& ranks) {
  double longest = 0;
  for (const RankTimes& rank : ranks) longest = std::max(longest, rank.seconds);
  if (longest <= 0) return "";
  std::string html =
      "<ul class=\"legend\"><li><span class=\"key box s0\"></span>own work</li><li><span class=\"key box s1\"></span>"
      "waiting for gradients of others</li></ul><div class=\"scroll\"><table class=\"plain bars\"><tr><th>rank</th><th>"
      "mean step</th><th>own work</th><th>waiting</th><th>slowest in</th><th class=\"wide\"></th></tr>";
  for (const RankTimes& rank : ranks) {
    html += "<tr" + std::string(rank.is_straggler ? " class=\"straggler\"" : "") + "><th scope=\"row\">" +
            std::to_string(rank.rank) + "</th><td>" + duration(rank.seconds) + "</td><td>" +
            duration(rank.own_seconds()) + "</td><td>" + duration(rank.wait_seconds) + "</td><td>" +
            (ranks.size() > 1 ? percent(rank.last_share, 0) : "") +
            "</td><td class=\"wide\"><span class=\"bar s0\" style=\"width:" +
            coordinate(100 * rank.own_seconds() / longest) +
            "%\"></span><span class=\"bar s1\" style=\"width:" + coordinate(100 * rank.wait_seconds / longest) +
            "%\"></span></td></tr>";
  }
  return html + "</table></div>";
}

/// One row of the map: own time of a rank in equal parts of the run; 0 where it has no step.
std::vector<double> map_row_of(const RankSteps& steps, std::int64_t first, std::int64_t last) {
  std::vector<double> sums(kMapColumns, 0), counts(kMapColumns, 0);
  for (const StepRecord& record : steps.records) {
    const double own = record.seconds - record.wait_seconds;
    if (!std::isfinite(own) || record.global_step < first || record.global_step > last) continue;
    const double share = static_cast<double>(record.global_step - first) / static_cast<double>(last - first + 1);
    const auto column = std::min(kMapColumns - 1, static_cast<std::size_t>(share * static_cast<double>(kMapColumns)));
    sums[column] += own;
    counts[column] += 1;
  }
  for (std::size_t i = 0; i < kMapColumns; ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : 0;
  return sums;
}

std::string map_of_slowness(const RunData& run, const std::vector<RankTimes>& ranks) {
  std::int64_t first = run.steps.front().records.front().global_step, last = first;
  for (const RankSteps& rank : run.steps) {
    first = std::min(first, rank.records.front().global_step);
    last = std::max(last, rank.records.back().global_step);
  }
  std::vector<double> medians;
  for (const RankTimes& rank : ranks) medians.push_back(rank.own_median);
  std::nth_element(medians.begin(), medians.begin() + static_cast<std::ptrdiff_t>(medians.size() / 2), medians.end());
  const double usual = medians[medians.size() / 2];
  if (usual <= 0 || last <= first) return "";
  constexpr double kMapLeft = 44, kMapWidth = 886, kMapRow = 16;
  const double cell_width = kMapWidth / static_cast<double>(kMapColumns);
  std::string svg;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto steps =
        std::find_if(run.steps.begin(), run.steps.end(), [&](const auto& s) { return s.rank == ranks[i].rank; });
    const std::vector<double> row = map_row_of(*steps, first, last);
    const double y = static_cast<double>(i) * (kMapRow + 2);
    svg += "<text class=\"tick end\" x=\"36\" y=\"" + coordinate(y + 12) + "\">" + std::to_string(ranks[i].rank) +
           "</text>";
    for (std::size_t column = 0; column < kMapColumns; ++column) {
      if (row[column] <= 0) continue;
      const double depth = std::clamp((row[column] / usual - 0.8) / 1.2, 0.06, 1.0);
      svg += "<rect class=\"heat\" x=\"" + coordinate(kMapLeft + cell_width * static_cast<double>(column)) + "\" y=\"" +
             coordinate(y) + "\" width=\"" + coordinate(cell_width) + "\" height=\"" + coordinate(kMapRow) +
             "\" fill-opacity=\"" + coordinate(depth) + "\"><title>rank " + std::to_string(ranks[i].rank) + ": " +
             duration(row[column]) + ", " + number(row[column] / usual, 3) + " times the usual</title></rect>";
    }
  }
  const double height = static_cast<double>(ranks.size()) * (kMapRow + 2);
  svg += "<text class=\"tick\" x=\"44\" y=\"" + coordinate(height + 14) + "\">step " + with_commas(first) +
         "</text><text class=\"tick end\" x=\"930\" y=\"" + coordinate(height + 14) + "\">step " + with_commas(last) +
         "</text>";
  return "<figure><figcaption>Own work per step, rank by rank over the run: the stronger the colour, the "
         "slower</figcaption><svg "
         "class=\"strip\" viewBox=\"0 0 932 " +
         coordinate(height + 20) + "\" role=\"img\" aria-label=\"Own work per step by rank\">" + svg +
         "</svg></figure>";
}

}  // namespace

std::string ranks_section(const RunData& run) {
  if (run.steps.empty()) return section("ranks", "Step times", absent("No rank has recorded its steps."));
  const StepTimes times = step_times(run.steps);
  const std::vector<RankTimes> ranks = shown_ranks(times);
  std::string note;
  if (ranks.size() < times.ranks.size()) {
    note = "<p>Shown are the " + std::to_string(ranks.size()) + " slowest of " + std::to_string(times.ranks.size()) +
           " ranks.</p>";
  }
  return section("ranks", "Step times by rank", verdict(times) + note + bars(ranks) + map_of_slowness(run, ranks));
}

}  // namespace tutti::trainer::page
