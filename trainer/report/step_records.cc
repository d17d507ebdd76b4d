#include <tutti/comm/base/format.h>
#include <tutti/trainer/json_fields.h>
#include <tutti/trainer/report/step_records.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kPrefix = "steps-rank-";
constexpr std::string_view kSuffix = ".jsonl";

/// The global step of a line, without reading the rest of it.
std::optional<std::int64_t> global_step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"global_step\":";
  const auto at = line.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = line.data() + at + kKey.size();
  if (std::from_chars(begin, line.data() + line.size(), step).ec != std::errc()) return std::nullopt;
  return step;
}

/// How many bytes of the file are whole lines of steps before `first_global_step`.
std::uint64_t bytes_before(const fs::path& file, std::int64_t first_global_step) {
  if (first_global_step <= 0) return 0;
  std::ifstream in(file, std::ios::binary);
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // a last line without its end is none
    if (global_step_of(line).value_or(-1) >= first_global_step) break;
    bytes += line.size() + 1;
  }
  return bytes;
}

std::optional<StepRecord> parse(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    return json.get<StepRecord>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::size_t write_step_line(const StepInfo& info, char* out) {
  char* next = out;
  const auto text = [&](std::string_view words) { next = std::copy(words.begin(), words.end(), next); };
  StepInfo::fields(info, [&](std::string_view key, auto value) {
    text(next == out ? "{\"" : ",\"");
    text(key);
    text("\":");
    if (!std::isfinite(static_cast<double>(value))) return text("null");
    next = std::to_chars(next, next + 32, value).ptr;  // the shortest that comes back as it was
  });
  text("}\n");
  return static_cast<std::size_t>(next - out);
}

fs::path steps_file(const fs::path& run_dir, int rank) {
  if (rank == 0) return run_dir / "steps.jsonl";
  return run_dir / (std::string(kPrefix) + std::to_string(rank) + std::string(kSuffix));
}

std::vector<int> ranks_with_steps(const fs::path& run_dir) {
  std::vector<int> ranks;
  if (fs::exists(steps_file(run_dir, 0))) ranks.push_back(0);
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const std::string_view number = std::string_view(name).substr(kPrefix.size());
    const auto rank = comm::decimal<int>(number.substr(0, number.size() - kSuffix.size()));
    if (rank && *rank > 0) ranks.push_back(*rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

StepsRead read_steps(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string() + ": " + std::strerror(errno));
  StepsRead read;
  for (std::string line; std::getline(in, line);) {
    if (const auto record = parse(line)) {
      read.records.push_back(*record);
    } else if (!in.eof()) {
      ++read.bad_lines;
    }
  }
  return read;
}

StepsWriter::StepsWriter(const fs::path& file, std::int64_t first_global_step)
    : file_(file, bytes_before(file, first_global_step)) {}

void StepsWriter::add(const StepInfo& info) {
  char line[kMaxStepLine];
  file_.append({line, write_step_line(info, line)});
  unflushed_seconds_ += info.seconds;
  if (unflushed_seconds_ >= 1) flush();
}

void StepsWriter::flush() {
  unflushed_seconds_ = 0;
  file_.flush();
}

void cut_steps(const fs::path& file, std::int64_t first_global_step) {
  if (fs::exists(file)) AppendFile(file, bytes_before(file, first_global_step));
}

}  // namespace tutti::trainer
