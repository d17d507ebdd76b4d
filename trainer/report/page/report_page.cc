#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/report_page.h>
#include <tutti/trainer/report/step_times.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tutti::trainer {
namespace {

using Json = nlohmann::ordered_json;
using Points = std::vector<std::pair<double, double>>;

constexpr std::size_t kPointsOfALine = 400;
constexpr std::size_t kColumns = 120;      // of a row over the whole run
constexpr std::size_t kMostClasses = 100;  // a table of 10,000 cells is the most that a page shows well
constexpr std::size_t kMistakesListed = 5;
constexpr std::size_t kMostBuckets = 1000;
constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kSpansDrawn = 200;

/// Five significant digits: a page shows no more.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

std::vector<double> rounded(std::vector<double> values) {
  for (double& value : values) value = rounded(value);
  return values;
}

/// The folder's own name, also when the path ends in "/" or is ".".
std::string folder_name(const RunData& run) {
  std::error_code error;
  const auto whole = std::filesystem::canonical(run.folder, error);
  return (error ? run.folder : whole).filename().string();
}

/// At most kPointsOfALine points: means over equal parts of the line.
Json thinned(const Points& points) {
  const std::size_t most = std::min(points.size(), kPointsOfALine);
  Json result = Json::array();
  for (std::size_t part = 0; part < most; ++part) {
    const std::size_t begin = part * points.size() / most;
    const std::size_t end = (part + 1) * points.size() / most;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += points[i].second;
    result.push_back({points[end - 1].first, rounded(sum / static_cast<double>(end - begin))});
  }
  return result;
}

/// Loss of each step over all ranks whose records are here, at the epoch that it belongs to: 0.5 is the middle of the
/// first one.
Json curves_of(const RunData& run) {
  std::int64_t longest = 1;  // an epoch that was cut short is no shorter for that
  for (const RankSteps& rank : run.steps) {
    for (const StepRecord& record : rank.records) longest = std::max(longest, record.step + 1);
  }
  const auto place = [&](const StepRecord& record) {
    return record.epoch - 1 + static_cast<double>(record.step + 1) / static_cast<double>(longest);
  };
  Points loss, learning_rate;
  for (const StepRecord& mean : mean_over_ranks(run.steps)) loss.emplace_back(place(mean), mean.loss);
  if (!run.steps.empty()) {
    for (const StepRecord& record : run.steps.front().records) {
      learning_rate.emplace_back(place(record), record.learning_rate);
    }
  }
  return {{"loss", thinned(loss)}, {"learning_rate", thinned(learning_rate)}};
}

Json confusion_of(const RunReport& report) {
  struct Mistake {
    std::size_t actual = 0, predicted = 0;
    std::int64_t count = 0;
  };
  const auto& matrix = report.confusion_matrix;
  std::vector<Mistake> mistakes;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      if (i != j && matrix[i][j] > 0) mistakes.push_back({i, j, matrix[i][j]});
    }
  }
  std::stable_sort(mistakes.begin(), mistakes.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  mistakes.resize(std::min(kMistakesListed, mistakes.size()));
  Json list = Json::array();
  for (const Mistake& mistake : mistakes) {
    list.push_back({{"actual", mistake.actual}, {"predicted", mistake.predicted}, {"count", mistake.count}});
  }
  return {{"classes", matrix.size()}, {"mistakes", list}};
}

/// Own time of a rank's steps in equal parts of the run; 0 where it has no step.
std::vector<double> map_row_of(const RankSteps& steps, std::int64_t first, std::int64_t last) {
  std::vector<double> sums(kColumns, 0), counts(kColumns, 0);
  for (const StepRecord& record : steps.records) {
    const double own = record.seconds - record.wait_seconds;
    if (!std::isfinite(own) || record.global_step < first || record.global_step > last) continue;
    const double share = static_cast<double>(record.global_step - first) / static_cast<double>(last - first + 1);
    const auto column = std::min(kColumns - 1, static_cast<std::size_t>(share * static_cast<double>(kColumns)));
    sums[column] += own;
    counts[column] += 1;
  }
  for (std::size_t i = 0; i < kColumns; ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : 0;
  return sums;
}

/// Which ranks a page shows when there are many: the slowest.
std::set<int> shown_ranks(std::vector<RankTimes> ranks) {
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.slowdown > b.slowdown; });
  std::set<int> shown;
  for (std::size_t i = 0; i < std::min(kMostRanks, ranks.size()); ++i) shown.insert(ranks[i].rank);
  return shown;
}

/// Stragglers and the ranks that are shown; only these have a "map".
Json ranks_of(const std::vector<RankSteps>& steps) {
  const StepTimes times = step_times(steps);
  const std::set<int> shown = shown_ranks(times.ranks);
  std::int64_t first = steps.empty() ? 0 : steps.front().records.front().global_step, last = first;
  for (const RankSteps& rank : steps) {
    first = std::min(first, rank.records.front().global_step);
    last = std::max(last, rank.records.back().global_step);
  }
  Json ranks = Json::array(), slow_steps = Json::array();
  for (std::size_t i = 0; i < times.ranks.size(); ++i) {
    const RankTimes& rank = times.ranks[i];
    if (!rank.is_straggler && !shown.contains(rank.rank)) continue;
    ranks.push_back({{"rank", rank.rank},
                     {"seconds", rank.seconds},
                     {"wait_seconds", rank.wait_seconds},
                     {"own_median", rank.own_median},
                     {"own_usual", rank.own_usual},
                     {"last_share", rank.last_share},
                     {"slowdown", rank.slowdown},
                     {"straggler", rank.is_straggler}});
    if (shown.contains(rank.rank)) ranks.back()["map"] = rounded(map_row_of(steps[i], first, last));
  }
  for (const SlowStep& slow : times.slow_steps) {
    slow_steps.push_back({{"rank", slow.rank},
                          {"epoch", slow.record.epoch},
                          {"step", slow.record.step},
                          {"own_seconds", slow.record.seconds - slow.record.wait_seconds},
                          {"usual_seconds", slow.usual_seconds}});
  }
  return {{"count", times.ranks.size()},
          {"straggler_from", kStragglerSlowdown},
          {"ranks", ranks},
          {"slow_steps", slow_steps},
          {"first_step", first},
          {"last_step", last}};
}

/// With rank 0's mean step, where it was recorded.
Json buckets_of(const RunData& run) {
  const auto end = run.buckets.begin() + static_cast<std::ptrdiff_t>(std::min(kMostBuckets, run.buckets.size()));
  const bool has_rank0 = !run.steps.empty() && run.steps.front().rank == 0;
  return {{"list", std::vector(run.buckets.begin(), end)},
          {"step_seconds", has_rank0 ? step_times({run.steps.front()}).ranks.front().seconds : 0.0}};
}

/// The middle of the run, as long as kSpansDrawn operations take: from and to, in microseconds.
std::pair<double, double> middle_of(std::vector<TraceSpan> trace) {
  std::sort(trace.begin(), trace.end(), [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
  const std::size_t count = std::min(kSpansDrawn, trace.size());
  const std::size_t first = (trace.size() - count) / 2;
  const double begin = trace[first].start_us;
  double end = begin;
  for (std::size_t i = first; i < first + count; ++i) {
    end = std::max(end, std::min(trace[i].start_us + trace[i].duration_us, trace[first + count - 1].start_us + 1000));
  }
  return {begin, end > begin ? end : begin + 1};
}

/// The most frequent first.
std::vector<std::string> names_in(const std::vector<TraceSpan>& trace) {
  std::map<std::string, std::size_t> counts;
  for (const TraceSpan& span : trace) ++counts[span.name];
  std::vector<std::string> names;
  for (const auto& [name, count] : counts) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return counts.at(a) > counts.at(b); });
  return names;
}

/// How much of the time each rank spent in collectives, in equal parts of the run.
std::map<int, std::vector<double>> busy_shares(const std::vector<TraceSpan>& trace, double end) {
  const double column_us = end / static_cast<double>(kColumns);
  std::map<int, std::vector<double>> busy;
  for (const TraceSpan& span : trace) {
    const auto found = busy.find(span.rank);
    if (found == busy.end() && busy.size() == kMostRanks) continue;
    std::vector<double>& row = found == busy.end() ? busy[span.rank] : found->second;
    row.resize(kColumns, 0);
    const double stop = span.start_us + span.duration_us;
    const auto first = static_cast<std::size_t>(std::max(0.0, span.start_us / column_us));
    for (std::size_t column = first; column < kColumns && !span.is_message; ++column) {
      const double from = static_cast<double>(column) * column_us;
      if (from >= stop) break;
      row[column] += (std::min(stop, from + column_us) - std::max(span.start_us, from)) / column_us;
    }
  }
  return busy;
}

Json trace_of(const std::vector<TraceSpan>& trace) {
  if (trace.empty()) return nullptr;
  double end = 0;
  bool has_messages = false;
  for (const TraceSpan& span : trace) {
    end = std::max(end, span.start_us + span.duration_us);
    has_messages = has_messages || span.is_message;
  }
  const auto busy = busy_shares(trace, std::max(end, 1e-9));
  Json ranks = Json::array(), spans = Json::array();
  for (const auto& [rank, shares] : busy) {
    ranks.push_back({{"rank", rank}, {"busy", rounded(shares)}});
    for (Json& share : ranks.back()["busy"]) share = std::min(1.0, share.get<double>());
  }
  const auto [from, to] = middle_of(trace);
  for (const TraceSpan& span : trace) {
    if (!busy.contains(span.rank) || span.start_us > to || span.start_us + span.duration_us < from) continue;
    if (spans.size() == 2 * kSpansDrawn) break;
    spans.push_back({{"rank", span.rank},
                     {"is_message", span.is_message},
                     {"name", span.name},
                     {"detail", span.detail},
                     {"start_us", span.start_us},
                     {"duration_us", span.duration_us}});
  }
  return {{"count", trace.size()},   {"end_us", end},       {"has_messages", has_messages},
          {"window_begin_us", from}, {"window_end_us", to}, {"names", names_in(trace)},
          {"ranks", ranks},          {"spans", spans}};
}

/// "mlp on mnist".
std::string title_of(const RunData& run) {
  const std::string model = run.report.model.empty() ? "A run" : run.report.model;
  return model + (run.report.task.empty() ? "" : " on " + run.report.task);
}

/// The JSON that page.js draws, without "<", so that it may stand in a script element; bytes that are no UTF-8 are
/// replaced.
std::string page_data(const RunData& run) {
  RunReport report = run.report;
  if (report.confusion_matrix.size() > kMostClasses) report.confusion_matrix.clear();
  const Json data = {{"title", title_of(run)},
                     {"folder", folder_name(run)},
                     {"origin", Json(run.origin)},
                     {"finished", run.finished},
                     {"remarks", run.remarks},
                     {"report", Json::parse(to_json(report))},
                     {"curves", curves_of(run)},
                     {"confusion", confusion_of(run.report)},
                     {"ranks", ranks_of(run.steps)},
                     {"buckets", buckets_of(run)},
                     {"trace", trace_of(run.trace)},
                     {"options", Json(run.options)},
                     {"log", run.log}};
  std::string text;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    text += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
  return text;
}

}  // namespace

std::string report_page(const RunData& run) {
  return page::filled(page::kPage, {{"title", page::escaped(title_of(run))},
                                    {"style", page::kStyle},
                                    {"script", page::kScript},
                                    {"script hash", Digest().add(page::kScript).base64()},
                                    {"data", page_data(run)}});
}

}  // namespace tutti::trainer
