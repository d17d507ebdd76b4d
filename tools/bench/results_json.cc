#include <tutti/tools/bench/results_json.h>

#include <nlohmann/json.hpp>

namespace tutti::tools::bench {
namespace {

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

std::string results_json(std::span<const Result> results) {
  Json rows = Json::array();
  for (const Result& result : results) rows.push_back(as_json(result));
  return Json{{"results", std::move(rows)}}.dump(2) + "\n";
}

}  // namespace tutti::tools::bench
