#include <tutti/tools/tune/compare.h>

#include <algorithm>
#include <cstdio>

namespace tutti::tools {
namespace {

constexpr std::size_t kElementBytes = sizeof(float);
constexpr std::size_t kSegmentBytes = comm::ProcessGroupOptions{}.segment_bytes;
constexpr double kNear = 1.3;

comm::algorithms::Problem problem_of(const comm::ProcessGroup& group, std::size_t bytes) {
  return {.op = comm::OpKind::AllReduce,
          .rank = 0,
          .world_size = group.world_size(),
          .count = bytes / kElementBytes,
          .segment_count = kSegmentBytes / kElementBytes};
}

template <typename... Values>
void print(std::ostream& out, const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  out << line;
}

}  // namespace

std::vector<Compared> compare(comm::ProcessGroup& group, const comm::Tuning& tuning, std::size_t max_bytes,
                              double seconds) {
  const auto names = candidates(group, comm::OpKind::AllReduce);
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1024; bytes <= max_bytes; bytes *= 4) sizes.push_back(bytes);
  const double each = seconds / static_cast<double>(std::max<std::size_t>(1, sizes.size() * names.size()));
  std::vector<Compared> rows;
  for (const std::size_t bytes : sizes) {
    const auto problem = problem_of(group, bytes);
    const auto chosen = comm::algorithms::choose(problem, kElementBytes, &tuning);
    for (const std::string& name : names) {
      const double measured = time_of(group, operation_of(comm::OpKind::AllReduce), problem.count, name, each);
      const double predicted = comm::predicted_seconds(problem, kElementBytes, name, tuning.model).value_or(0);
      rows.push_back({name, bytes, predicted, measured, name == chosen});
    }
  }
  return rows;
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

void print_tuning(std::ostream& out, const comm::Tuning& tuning) {
  print(out, "# %d ranks on %d host(s) over %s; startup %.1f us, alpha %.1f us, %.2f GB/s, gamma %.3f ns/byte\n",
        tuning.place.world_size, tuning.place.hosts, tuning.place.transport.c_str(), tuning.model.startup * 1e6,
        tuning.model.alpha * 1e6, 1e-9 / tuning.model.beta, tuning.model.gamma * 1e9);
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
