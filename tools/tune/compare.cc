#include <tutti/tools/tune/compare.h>
#include <tutti/tools/tune/network_meter.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>

namespace tutti::tools {
namespace {

constexpr std::size_t kElementBytes = sizeof(float);
constexpr std::size_t kSegmentBytes = comm::ProcessGroupOptions{}.segment_bytes;
constexpr double kNear = 1.3;

using Clock = std::chrono::steady_clock;

comm::Problem problem_of(const comm::ProcessGroup& group, std::size_t bytes) {
  return {.op = comm::OpKind::AllReduce,
          .rank = 0,
          .world_size = group.world_size(),
          .count = bytes / kElementBytes,
          .segment_count = kSegmentBytes / kElementBytes};
}

/// A row to be.
struct Line {
  std::size_t bytes;
  std::string algorithm;
  std::unique_ptr<OperationMeter> meter;
};

std::vector<Line> lines_of(comm::ProcessGroup& group, std::size_t max_bytes) {
  constexpr comm::OpKind kOp = comm::OpKind::AllReduce;
  std::vector<Line> lines;
  for (std::size_t bytes = 1024; bytes <= max_bytes; bytes *= 4) {
    for (const std::string& name : candidates(group, kOp))
      lines.push_back({bytes, name, std::make_unique<OperationMeter>(group, kOp, bytes / kElementBytes, name)});
  }
  return lines;
}

/// A batch of everything; the model's of a length right before the algorithms' of that length.
void measure_by_size(comm::ProcessGroup& group, NetworkMeter& network, std::vector<Line>& lines) {
  double done = -1;
  for (Line& line : lines) {
    const auto bytes = static_cast<double>(line.bytes);
    if (bytes > done) network.measure(done, bytes);
    done = bytes;
    line.meter->measure(group);
  }
  network.measure(done, HUGE_VAL);
}

template <typename... Values>
void print(std::ostream& out, const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  out << line;
}

}  // namespace

Comparison compare(comm::ProcessGroup& group, const comm::Tuning* tuning, std::size_t max_bytes, double seconds) {
  std::vector<Line> lines = lines_of(group, max_bytes);
  NetworkMeter network(group);
  const auto begin = Clock::now();
  double left = 0;
  do {
    measure_by_size(group, network, lines);
    left = seconds - std::chrono::duration<double>(Clock::now() - begin).count();
    group.broadcast(std::span<double>(&left, 1), 0);
  } while (left > 0);

  Comparison result{.model = network.model(), .rows = {}};
  const comm::Tuning by_model{.host = {}, .date = {}, .place = group.place(), .model = result.model, .rows = {}};
  for (const Line& line : lines) {
    const auto problem = problem_of(group, line.bytes);
    const auto chosen = comm::algorithms::choose(problem, kElementBytes, tuning ? tuning : &by_model);
    const auto predicted = comm::predicted_seconds(problem, kElementBytes, line.algorithm, result.model);
    result.rows.push_back({line.algorithm, line.bytes, predicted.value_or(0), line.meter->seconds(),  //
                           line.algorithm == chosen});
  }
  return result;
}

void print_comparison(std::ostream& out, const std::vector<Compared>& rows) {
  print(out, "\n%12s %-20s %14s %14s %10s\n", "bytes", "all_reduce", "predicted us", "measured us", "ratio");
  std::size_t near = 0;
  for (const Compared& row : rows) {
    print(out, "%12zu %-20s %14.1f %14.1f %10.2f%s\n", row.bytes, row.algorithm.c_str(), row.predicted_seconds * 1e6,
          row.measured_seconds * 1e6, row.ratio(), row.is_chosen ? "  chosen" : "");
    if (row.ratio() <= kNear && row.ratio() >= 1 / kNear) ++near;
  }
  print(out, "# %zu of %zu predictions within 30 %%\n", near, rows.size());
}

void print_model(std::ostream& out, const comm::TuningPlace& place, const comm::NetworkModel& model) {
  print(out, "# %d ranks on %d host(s) over %s; startup %.1f us, alpha %.1f us, %.2f GB/s, gamma %.3f ns/byte\n",
        place.world_size, place.hosts, place.transport.c_str(), model.startup * 1e6, model.alpha * 1e6,
        1e-9 / model.beta, model.gamma * 1e9);
}

void print_tuning(std::ostream& out, const comm::Tuning& tuning) {
  print_model(out, tuning.place, tuning.model);
  print(out, "%-16s %12s  %s\n", "operation", "bytes a rank", "us by algorithm, fastest first");
  for (auto row = tuning.rows.begin(); row != tuning.rows.end();) {
    const auto end = std::find_if(row, tuning.rows.end(),
                                  [&](const auto& other) { return other.op != row->op || other.bytes != row->bytes; });
    std::vector<comm::Tuning::Row> sorted(row, end);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    print(out, "%-16s %12zu ", std::string(comm::name(row->op)).c_str(), row->bytes);
    for (const auto& each : sorted) print(out, " %s %.1f", each.algorithm.c_str(), each.seconds * 1e6);
    out << "\n";
    row = end;
  }
}

}  // namespace tutti::tools
