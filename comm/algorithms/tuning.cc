#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tutti::comm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFileBytes = 1 << 20;  // far above any real one; it has to fit into a store's value

constexpr double kLargestNumber = 1e15;

constexpr std::string_view kProcessors = "processors ";  // what is published instead of a file begins so

std::string key_of(const std::string& group) { return group + "/tuning"; }

/// Units of a millionth of a second (or a billionth), to a thousandth of the unit: what is read back is what was
/// written.
double in_units(double value, double unit) { return std::round(value / unit * 1e3) / 1e3; }

const Json& member(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) refuse("key \"", key, "\" is missing");
  return object.at(key);
}

double number(const Json& object, const char* key, double least) {
  const Json& value = member(object, key);
  if (!value.is_number()) refuse("\"", key, "\" is no number but ", value.dump());
  const double result = value.get<double>();
  if (!std::isfinite(result) || result < least || result > kLargestNumber) refuse("\"", key, "\" is ", value.dump());
  return result;
}

int whole_number(const Json& object, const char* key) {
  const double value = number(object, key, 1);
  if (value != std::floor(value) || value > 1e9) refuse("\"", key, "\" is ", member(object, key).dump());
  return static_cast<int>(value);
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) refuse("\"", key, "\" is no text but ", value.dump());
  return value.get<std::string>();
}

const Json& list(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array()) refuse("\"", key, "\" is no list");
  return value;
}

OpKind op_named(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(kLastOpKind); ++i) {
    if (name(static_cast<OpKind>(i)) == text) return static_cast<OpKind>(i);
  }
  refuse("there is no operation \"", text, "\"");
}

NetworkModel parse_model(const Json& object) {
  NetworkModel model;
  model.alpha = model.local_alpha = number(object, "alpha_us", 0) * 1e-6;
  model.beta = model.local_beta = number(object, "beta_ns", 0) * 1e-9;
  model.gamma = number(object, "gamma_ns", 0) * 1e-9;
  return model;
}

Tuning::Row parse_row(const Json& object) {
  Tuning::Row row{op_named(text(object, "op")), text(object, "algorithm"),
                  static_cast<std::size_t>(number(object, "bytes", 1)), number(object, "us", 0) * 1e-6};
  const auto names = algorithms::names_for(row.op);
  if (std::find(names.begin(), names.end(), row.algorithm) == names.end()) {
    refuse("there is no algorithm \"", row.algorithm, "\" for ", name(row.op));
  }
  return row;
}

std::string describe(const TuningPlace& place) {
  return joined(place.world_size, " ranks on ", place.hosts, " host(s) over ", place.transport);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kMostFileBytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.is_open() || file.bad()) refuse("it cannot be read");  // not there, or a folder
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > kMostFileBytes) refuse("it is longer than 1 MiB");
  return content;
}

/// The file's text if it fits this place, else "" and a warning.
std::string usable_text(const std::string& path, const TuningPlace& here) {
  try {
    const std::string content = read_text(path);
    const Tuning tuning = parse_tuning(content);
    if (tuning.place != here) {
      refuse("it was measured with ", describe(tuning.place), ", but this group has ", describe(here),
             "; measure again with `tutti tune`");
    }
    return content;
  } catch (const Error& error) {
    log(LogLevel::Warn, "tuning file ", path, " is not used: ", error.what());
    return {};
  }
}

}  // namespace

std::optional<double> Tuning::seconds(OpKind op, std::string_view algorithm, double bytes) const {
  const Row* below = nullptr;  // the last row that is shorter
  for (const Row& row : rows) {
    if (row.op != op || row.algorithm != algorithm) continue;
    const auto here = static_cast<double>(row.bytes);
    if (here < bytes) {
      below = &row;
      continue;
    }
    if (below == nullptr) return row.seconds;
    const auto before = static_cast<double>(below->bytes);
    return below->seconds + (row.seconds - below->seconds) * (bytes - before) / (here - before);
  }
  if (below == nullptr) return std::nullopt;
  return below->seconds * bytes / static_cast<double>(below->bytes);
}

std::string tuning_text(const Tuning& tuning) {
  Json rows = Json::array();
  for (const Tuning::Row& row : tuning.rows) {
    rows.push_back({{"op", name(row.op)},
                    {"algorithm", row.algorithm},
                    {"bytes", row.bytes},
                    {"us", in_units(row.seconds, 1e-6)}});
  }
  const Json object = {{"tutti_tuning", kTuningVersion},
                       {"host", tuning.host},
                       {"date", tuning.date},
                       {"transport", tuning.place.transport},
                       {"world_size", tuning.place.world_size},
                       {"hosts", tuning.place.hosts},
                       {"model",
                        {{"alpha_us", in_units(tuning.model.alpha, 1e-6)},
                         {"beta_ns", in_units(tuning.model.beta, 1e-9)},
                         {"gamma_ns", in_units(tuning.model.gamma, 1e-9)}}},
                       {"measured", rows}};
  return object.dump(1) + "\n";
}

Tuning parse_tuning(const std::string& text_of_file) {
  const Json object = Json::parse(text_of_file, nullptr, false);
  if (object.is_discarded()) refuse("it is not JSON");
  const int version = whole_number(object, "tutti_tuning");
  if (version != kTuningVersion) {
    refuse("it has version ", version, ", this program reads version ", kTuningVersion,
           "; measure again with `tutti tune`");
  }
  Tuning tuning;
  tuning.host = text(object, "host");
  tuning.date = text(object, "date");
  tuning.place = {text(object, "transport"), whole_number(object, "world_size"), whole_number(object, "hosts")};
  tuning.model = parse_model(member(object, "model"));
  for (const Json& row : list(object, "measured")) tuning.rows.push_back(parse_row(row));
  std::stable_sort(tuning.rows.begin(), tuning.rows.end(),
                   [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return tuning;
}

std::string tuning_path() {
  const char* value = std::getenv("TUTTI_TUNING");
  return value == nullptr ? "" : value;
}

void publish_tuning(Store& store, const std::string& group, const TuningPlace& here, Deadline deadline,
                    int processors) {
  const std::string path = tuning_path();
  std::string text = path.empty() ? "" : usable_text(path, here);
  if (text.empty() && processors > 0) text = std::string(kProcessors) + std::to_string(processors);
  store.set(key_of(group), text, deadline);
}

std::shared_ptr<const Tuning> published_tuning(Store& store, const std::string& group, Deadline deadline) {
  std::string content;
  try {
    content = store.get(key_of(group), deadline);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) throw;
    throw Error(ErrorCode::Timeout, "rank 0 has not said which tuning file it uses: ", error.what());
  }
  if (content.empty()) return nullptr;
  if (!content.starts_with(kProcessors)) return std::make_shared<const Tuning>(parse_tuning(content));
  Tuning shared;
  const char* const end = content.data() + content.size();
  const auto [stop, error] = std::from_chars(content.data() + kProcessors.size(), end, shared.processors);
  if (error != std::errc() || stop != end || shared.processors < 1)
    throw Error(ErrorCode::Protocol, "rank 0 has published \"", content, "\" instead of a number of processors");
  return std::make_shared<const Tuning>(shared);
}

}  // namespace tutti::comm
