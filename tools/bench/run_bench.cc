#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/bench/live_line.h>
#include <tutti/tools/bench/run_bench.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/checkpoint/files.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::tools::bench {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#if defined(__OPTIMIZE__)
constexpr bool kOptimized = true;
#else
constexpr bool kOptimized = false;
#endif

constexpr char kTitleFormat[] = "#%12s %12s %8s %6s %5s %10s %10s %10s %10s %8s %8s";
constexpr char kRowFormat[] = " %12zu %12zu %8s %6s %5d %10s %10s %10s %10s %8s %8s %8s\n";

/// Four significant digits or so in few columns: 3.141, 31.41, 314.1, 3141.
std::string number(double value) {
  const int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
  return comm::format("%.*f", decimals, value);
}

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json as_json(const Result& result) {
  const TimesUs& time = result.measured.time;
  return {{"op", result.op},
          {"ranks", result.ranks},
          {"transport", result.transport},
          {"algorithm", or_null(result.algorithm)},
          {"registered", result.registered},
          {"dtype", or_null(result.dtype)},
          {"redop", or_null(result.redop)},
          {"bytes", result.bytes},
          {"count", result.count},
          {"iterations", result.measured.iterations},
          {"time_us", {{"min", time.min}, {"median", time.median}, {"p99", time.p99}, {"max", time.max}}},
          {"algbw_gbps", result.algbw_gbps},
          {"busbw_gbps", result.busbw_gbps},
          {"wrong", or_null(result.measured.wrong)}};
}

std::string transport_name(const comm::ProcessGroup& group) {
  return group.world_size() > 1 ? group.transport_name() : "none";
}

std::optional<std::string> algorithm_of(comm::ProcessGroup& group, const Operation& operation, const Case& c) {
  if (operation.kind == comm::OpKind::Send || c.world_size == 1) return std::nullopt;
  return group.algorithm_for(operation.kind, c.count, c.dtype, c.root);
}

Result as_result(comm::ProcessGroup& group, const Operation& operation, const Case& c, const BenchOptions& options,
                 Measurement measured) {
  Result result{.op = std::string(operation.name),
                .ranks = c.world_size,
                .transport = transport_name(group),
                .algorithm = algorithm_of(group, operation, c),
                .registered = options.measuring.registered,
                .bytes = bytes_for(operation, c.count, comm::size_of(c.dtype), c.world_size),
                .count = c.count,
                .measured = measured};
  if (operation.moves_data) result.dtype = comm::name(c.dtype);
  if (operation.reduces) result.redop = comm::name(c.redop);
  if (operation.rooted) result.root = c.root;
  // Bytes a microsecond are MB/s. A clock too coarse to see the call leaves 0.
  if (measured.time.median > 0) result.algbw_gbps = static_cast<double>(result.bytes) / measured.time.median / 1e3;
  result.busbw_gbps = result.algbw_gbps * operation.bus_factor(c.world_size);
  return result;
}

/// The counts of one operation's rows: each once, also where several sizes round to the same.
std::vector<std::size_t> counts_of(const Operation& operation, const BenchOptions& options, int world_size) {
  std::vector<std::size_t> counts;
  for (const std::size_t bytes : sizes(options)) {
    counts.push_back(count_for(operation, bytes, comm::size_of(options.dtype), world_size));
  }
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

}  // namespace

void print_header(std::ostream& out, const BenchOptions& options, int ranks, const std::string& transport) {
  const MeasureOptions& measuring = options.measuring;
  out << "# tutti bench " TUTTI_VERSION ", build type " TUTTI_BUILD_TYPE ", on " << comm::host_name() << "\n";
  out << "# ranks " << ranks << ", transport " << transport << ", algorithm "
      << (options.group.algorithm.empty() ? "chosen by size" : options.group.algorithm)
      << (options.group.reproducible ? ", reductions reproducible" : "") << (measuring.fresh ? ", data fresh" : "")
      << "\n";
  out << "# warmup " << measuring.warmup << ", iterations ";
  if (measuring.iterations > 0) {
    out << measuring.iterations;
  } else {
    out << "for " << measuring.min_time / std::chrono::milliseconds(1) << " ms or more";
  }
  out << ", results " << (measuring.check ? "checked" : "not checked") << "\n";
  out << "# time is the longest of all ranks; bandwidths are those of the median; GB = 1e9 bytes\n";
  if (!kOptimized) out << "# WARNING: built without optimisation; these times say nothing. Use the release preset.\n";
  if (kSanitized) out << "# WARNING: built with a sanitizer; these times say nothing. Use the release preset.\n";
  out << std::flush;
}

void print_titles(std::ostream& out, const std::string& operation) {
  out << "#\n# " << operation << "\n#\n";
  out << comm::format(kTitleFormat, "size", "count", "type", "redop", "root", "min", "median", "p99", "max", "algbw",
                      "busbw")
      << comm::format(" %8s\n", "#wrong")
      << comm::format(kTitleFormat, "(B)", "(elements)", "", "", "", "(us)", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)")
      << "\n"
      << std::flush;
}

void print_row(std::ostream& out, const Result& result) {
  const TimesUs& time = result.measured.time;
  const std::string wrong = result.measured.wrong ? std::to_string(*result.measured.wrong) : "N/A";
  out << comm::format(kRowFormat, result.bytes, result.count, std::string(result.dtype.value_or("none")).c_str(),
                      std::string(result.redop.value_or("none")).c_str(), result.root.value_or(-1),
                      number(time.min).c_str(), number(time.median).c_str(), number(time.p99).c_str(),
                      number(time.max).c_str(), number(result.algbw_gbps).c_str(), number(result.busbw_gbps).c_str(),
                      wrong.c_str())
      << std::flush;
}

void print_footer(std::ostream& out, std::span<const Result> results) {
  std::uint64_t wrong = 0;
  bool checked = false;
  double sum = 0;
  std::size_t rows = 0;
  for (const Result& result : results) {
    wrong += result.measured.wrong.value_or(0);
    checked = checked || result.measured.wrong.has_value();
    if (result.bytes == 0) continue;
    sum += result.busbw_gbps;
    ++rows;
  }
  out << "#\n# Total wrong: " << (checked ? std::to_string(wrong) : "N/A") << "\n";
  out << "# Average bus bandwidth: " << (rows > 0 ? number(sum / static_cast<double>(rows)) + " GB/s" : "N/A") << "\n"
      << std::flush;
}

std::string results_json(std::span<const Result> results) {
  Json rows = Json::array();
  for (const Result& result : results) rows.push_back(as_json(result));
  return Json{{"results", std::move(rows)}}.dump(2) + "\n";
}

std::vector<Result> run_in_group(comm::ProcessGroup& group, std::span<const Operation> table,
                                 const BenchOptions& options, std::ostream& out) {
  const bool prints = group.rank() == 0;
  const int ranks = group.world_size();
  std::size_t rows = 0;
  for (const Operation& operation : table)
    rows += ranks < operation.min_ranks ? 0 : counts_of(operation, options, ranks).size();
  std::vector<Result> results;
  if (prints) print_header(out, options, ranks, transport_name(group));
  StepLine live(prints, rows, options.columns);
  for (const Operation& operation : table) {
    if (ranks < operation.min_ranks) {
      if (prints) out << "#\n# " << operation.name << ": left out, needs " << operation.min_ranks << " ranks (-n)\n";
      continue;
    }
    if (prints) print_titles(out, std::string(operation.name));
    for (const std::size_t count : counts_of(operation, options, ranks)) {
      const Case c{.rank = group.rank(),
                   .world_size = ranks,
                   .root = 0,
                   .count = count,
                   .dtype = options.dtype,
                   .redop = options.redop};
      const std::size_t bytes = bytes_for(operation, count, comm::size_of(c.dtype), ranks);
      live.next(std::string(operation.name) + " " + std::to_string(bytes) + " B");
      results.push_back(as_result(group, operation, c, options, measure(group, operation, c, options.measuring)));
      live.clear();
      if (prints) print_row(out, results.back());
    }
  }
  if (prints) print_footer(out, results);
  return results;
}

int exit_status(std::span<const Result> results) {
  const auto wrong = [](const Result& result) { return result.measured.wrong.value_or(0) > 0; };
  return std::any_of(results.begin(), results.end(), wrong) ? 1 : 0;
}

int run_bench(std::span<const Operation> table, const BenchOptions& options, std::ostream& out) {
  const comm::World world = comm::World::detect();
  check_memory(options, table, world.world_size, world.local_world_size);
  return run_as_rank(world, options.group, [&](comm::ProcessGroup& group) {
    const bool writes = world.rank == 0 && !options.json.empty();
    if (writes) trainer::check_writable(options.json);
    const std::vector<Result> results = run_in_group(group, table, options, out);
    if (writes) trainer::replace_file(options.json, results_json(results));
    return exit_status(results);
  });
}

}  // namespace tutti::tools::bench
