#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/sections.h>

#include <algorithm>
#include <map>
#include <set>

namespace tutti::trainer::page {
namespace {

constexpr std::size_t kSpansDrawn = 200;
constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kOverviewColumns = 120;
constexpr double kLanesLeft = 44, kLanesWidth = 886, kLaneRow = 16;

struct Window {
  double begin = 0, end = 1;  // microseconds
  double place(double us) const { return kLanesLeft + kLanesWidth * (us - begin) / (end - begin); }
};

std::vector<int> ranks_of(const std::vector<TraceSpan>& trace) {
  std::set<int> ranks;
  for (const TraceSpan& span : trace) ranks.insert(span.rank);
  std::vector<int> list(ranks.begin(), ranks.end());
  if (list.size() > kMostRanks) list.resize(kMostRanks);
  return list;
}

/// The middle of the run, as long as kSpansDrawn operations take.
Window middle_of(std::vector<TraceSpan> trace) {
  std::sort(trace.begin(), trace.end(), [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
  const std::size_t count = std::min(kSpansDrawn, trace.size());
  const std::size_t first = (trace.size() - count) / 2;
  Window window{.begin = trace[first].start_us, .end = trace[first].start_us};
  for (std::size_t i = first; i < first + count; ++i) {
    window.end = std::max(window.end,
                          std::min(trace[i].start_us + trace[i].duration_us, trace[first + count - 1].start_us + 1000));
  }
  if (window.end <= window.begin) window.end = window.begin + 1;
  return window;
}

/// The most frequent operations get colours of their own, the rest share the last one.
std::map<std::string, int> colours_of(const std::vector<TraceSpan>& trace) {
  std::map<std::string, std::size_t> counts;
  for (const TraceSpan& span : trace) ++counts[span.name];
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [name, count] : counts) order.emplace_back(count, name);
  std::sort(order.rbegin(), order.rend());
  std::map<std::string, int> colours;
  for (std::size_t i = 0; i < order.size(); ++i)
    colours[order[i].second] = static_cast<int>(std::min<std::size_t>(i, 7));
  return colours;
}

std::string rank_label(int rank, double y) {
  return "<text class=\"tick end\" x=\"36\" y=\"" + coordinate(y + 12) + "\">" + std::to_string(rank) + "</text>";
}

/// How much of the time each rank spent in operations, over the whole run.
std::string overview(const std::vector<TraceSpan>& trace, const std::vector<int>& ranks) {
  double end = 0;
  for (const TraceSpan& span : trace) end = std::max(end, span.start_us + span.duration_us);
  if (end <= 0) return "";
  const double column_us = end / static_cast<double>(kOverviewColumns);
  std::map<int, std::vector<double>> busy;
  for (const int rank : ranks) busy[rank].resize(kOverviewColumns, 0);
  for (const TraceSpan& span : trace) {
    const auto row = busy.find(span.rank);
    if (row == busy.end() || span.is_message) continue;
    const double stop = span.start_us + span.duration_us;
    for (auto column = static_cast<std::size_t>(std::max(0.0, span.start_us / column_us)); column < kOverviewColumns;
         ++column) {
      const double from = static_cast<double>(column) * column_us;
      if (from >= stop) break;
      row->second[column] += std::min(stop, from + column_us) - std::max(span.start_us, from);
    }
  }
  std::string svg;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double y = static_cast<double>(i) * (kLaneRow + 2);
    svg += rank_label(ranks[i], y);
    for (std::size_t column = 0; column < kOverviewColumns; ++column) {
      const double share = std::min(1.0, busy[ranks[i]][column] / column_us);
      if (share < 0.005) continue;
      svg += "<rect class=\"heat\" x=\"" +
             coordinate(kLanesLeft + kLanesWidth * static_cast<double>(column) / kOverviewColumns) + "\" y=\"" +
             coordinate(y) + "\" width=\"" + coordinate(kLanesWidth / kOverviewColumns) + "\" height=\"" +
             coordinate(kLaneRow) + "\" fill-opacity=\"" + coordinate(std::max(0.04, share)) + "\"><title>rank " +
             std::to_string(ranks[i]) + ": " + percent(share, 0) + " in collectives</title></rect>";
    }
  }
  const double height = static_cast<double>(ranks.size()) * (kLaneRow + 2);
  svg += "<text class=\"tick\" x=\"44\" y=\"" + coordinate(height + 14) +
         "\">0 s</text><text class=\"tick end\" x=\"930\" y=\"" + coordinate(height + 14) + "\">" +
         duration(end / 1e6) + "</text>";
  return "<figure><figcaption>The whole run: share of the time in collectives, rank by rank</figcaption><svg "
         "class=\"strip\" viewBox=\"0 0 932 " +
         coordinate(height + 20) + "\" role=\"img\" aria-label=\"Share of time in collectives\">" + svg +
         "</svg></figure>";
}

std::string rectangle(const TraceSpan& span, const Window& window, double y, int colour) {
  const double from = window.place(std::max(window.begin, span.start_us));
  const double to = window.place(std::min(window.end, span.start_us + span.duration_us));
  return "<rect class=\"s" + std::to_string(colour) + "\" x=\"" + coordinate(from) + "\" y=\"" + coordinate(y) +
         "\" width=\"" + coordinate(std::max(0.6, to - from)) + "\" height=\"" + coordinate(kLaneRow - 2) +
         "\"><title>rank " + std::to_string(span.rank) + ": " + escaped(span.detail) + ", " +
         duration(span.duration_us / 1e6) + " from " + number(span.start_us / 1e3, 8) + " ms</title></rect>";
}

std::string close_up(const std::vector<TraceSpan>& trace, const std::vector<int>& ranks) {
  const Window window = middle_of(trace);
  const std::map<std::string, int> colours = colours_of(trace);
  const bool has_messages = std::any_of(trace.begin(), trace.end(), [](const auto& span) { return span.is_message; });
  const double row = has_messages ? 2 * kLaneRow + 6 : kLaneRow + 4;
  std::map<int, std::size_t> row_of_rank;
  std::string svg;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    row_of_rank[ranks[i]] = i;
    const double y = static_cast<double>(i) * row;
    svg += rank_label(ranks[i], y) + "<rect class=\"lane\" x=\"44\" y=\"" + coordinate(y - 1) + "\" width=\"" +
           coordinate(kLanesWidth) + "\" height=\"" + coordinate(row - 4) + "\"/>";
  }
  std::set<std::string> seen;
  std::size_t drawn = 0;
  for (const TraceSpan& span : trace) {
    const auto at = row_of_rank.find(span.rank);
    if (at == row_of_rank.end() || span.start_us > window.end || span.start_us + span.duration_us < window.begin)
      continue;
    if (++drawn > 2 * kSpansDrawn) break;
    seen.insert(span.name);
    svg += rectangle(span, window, static_cast<double>(at->second) * row + (span.is_message ? kLaneRow : 0),
                     colours.at(span.name));
  }
  const double height = static_cast<double>(ranks.size()) * row;
  svg += "<text class=\"tick\" x=\"44\" y=\"" + coordinate(height + 12) + "\">" + number(window.begin / 1e3, 6) +
         " ms</text><text class=\"tick end\" x=\"930\" y=\"" + coordinate(height + 12) + "\">" +
         number(window.end / 1e3, 6) + " ms</text>";
  std::string legend = "<ul class=\"legend\">";
  for (const auto& [name, colour] : colours) {
    if (!seen.contains(name)) continue;
    legend += "<li><span class=\"key box s" + std::to_string(colour) + "\"></span>" + escaped(name) + "</li>";
  }
  return "<figure><figcaption>From the middle of the run, " + duration((window.end - window.begin) / 1e6) + " long" +
         (has_messages ? "; below each rank's collectives its messages" : "") + "</figcaption>" + legend +
         "</ul><svg class=\"strip\" viewBox=\"0 0 932 " + coordinate(height + 20) +
         "\" role=\"img\" aria-label=\"Timeline of operations\">" + svg + "</svg></figure>";
}

}  // namespace

std::string timeline_section(const RunData& run) {
  const char* title = "Messages";
  if (run.trace.empty()) {
    return section("timeline", title, absent("No trace: <code>tutti train --trace FILE</code> writes one."));
  }
  const std::vector<int> ranks = ranks_of(run.trace);
  return section("timeline", title,
                 "<p>" + with_commas(static_cast<std::int64_t>(run.trace.size())) +
                     " operations were traced. The whole trace opens in <code>ui.perfetto.dev</code>.</p>" +
                     overview(run.trace, ranks) + close_up(run.trace, ranks));
}

}  // namespace tutti::trainer::page
