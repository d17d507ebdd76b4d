#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/tools/bench/results.h>

#include <nlohmann/json.hpp>

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

}  // namespace

void print_header(std::ostream& out, const BenchOptions& options, int ranks, const std::string& transport) {
  out << "# tutti bench " TUTTI_VERSION ", build type " TUTTI_BUILD_TYPE ", on " << comm::host_name() << "\n";
  out << "# ranks " << ranks << ", transport " << transport << ", algorithm "
      << (options.algorithm.empty() ? "chosen by size" : options.algorithm)
      << (options.reproducible ? ", reductions reproducible" : "") << (options.fresh ? ", data fresh" : "") << "\n";
  out << "# warmup " << options.warmup << ", iterations ";
  if (options.iterations > 0) {
    out << options.iterations;
  } else {
    out << "for " << options.min_time.count() << " ms or more";
  }
  out << ", results " << (options.check ? "checked" : "not checked") << "\n";
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

}  // namespace tutti::tools::bench
