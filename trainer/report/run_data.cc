#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/json_fields.h>
#include <tutti/trainer/report/run_data.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kLogLines = 60;

/// What `action` throws becomes a remark.
template <typename Action>
void remarking(RunData& run, const std::string& what_is_missing, const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    run.remarks.push_back(what_is_missing + ": " + error.what());
  }
}

void read_report(RunData& run) {
  const fs::path file = run.folder / "report.json";
  if (fs::exists(file)) {
    remarking(run, "the results of report.json cannot be shown", [&] {
      run.report = report_from_json(read_whole_file(file));
      run.finished = true;
    });
    return;
  }
  run.remarks.push_back(
      "there is no report.json: the run has not come to its end, or was told to write it elsewhere "
      "(--json); what it recorded until then is shown");
  remarking(run, "the epochs before the end are not known either", [&] {
    const auto newest = newest_checkpoint(run.folder / "checkpoints");
    if (newest) run.report.epochs = epochs_from_json(read_checkpoint(*newest).state.history);
  });
}

void read_options(RunData& run) {
  remarking(run, "the options are not known", [&] { run.options = read_option_texts(run.folder / "options.json"); });
  const fs::path origin = run.folder / "run.json";
  if (fs::exists(origin)) {
    remarking(run, "it is not known where the run was started", [&] { run.origin = read_option_texts(origin); });
  }
  if (run.report.model.empty()) run.report.model = text_in(run.options, "model");
  if (run.report.task.empty()) run.report.task = text_in(run.options, "task");
}

void read_all_steps(RunData& run) {
  for (const int rank : ranks_with_steps(run.folder)) {
    const fs::path file = steps_file(run.folder, rank);
    remarking(run, "the steps of rank " + std::to_string(rank) + " are missing", [&] {
      StepsRead read = read_steps(file);
      if (read.bad_lines > 0) {
        run.remarks.push_back(std::to_string(read.bad_lines) + " lines of " + file.filename().string() +
                              " are no records of steps and are left out");
      }
      if (!read.records.empty()) run.steps.push_back({rank, std::move(read.records)});
    });
  }
  if (run.steps.empty()) {
    run.remarks.push_back("there are no records of steps (steps.jsonl)");
    return;
  }
  const int ranks = run.finished ? run.report.world_size : run.steps.back().rank + 1;
  const auto found = static_cast<int>(run.steps.size());
  if (found < ranks) {
    run.remarks.push_back("steps of " + std::to_string(found) + " of " + std::to_string(ranks) +
                          " ranks are here; ranks on other hosts leave theirs in the same folder there");
  }
}

void read_buckets(RunData& run) {
  const fs::path file = run.folder / "buckets.json";
  if (!fs::exists(file)) return;
  remarking(run, "the buckets cannot be shown",
            [&] { run.buckets = Json::parse(read_whole_file(file)).get<std::vector<BucketTiming>>(); });
}

void read_log(RunData& run) {
  std::ifstream in(run.folder / "log.txt");
  for (std::string line; std::getline(in, line);) {
    run.log.push_back(line);
    if (run.log.size() > kLogLines) run.log.erase(run.log.begin());
  }
}

/// The file that was named, else the run's own if it is still where it was written, or lies in the folder by that name.
fs::path trace_of(const RunData& run, const fs::path& named) {
  if (!named.empty()) return named;
  const fs::path written = text_in(run.options, "trace");
  if (written.empty()) return {};
  const fs::path beside = run.folder / written.filename();
  return fs::exists(beside) ? beside : written;
}

TraceSpan span_from(const Json& json) {
  const Json& arguments = json.at("args");
  TraceSpan span{.rank = json.at("pid").get<int>(),
                 .is_message = json.at("cat").get<std::string>() == "message",
                 .name = json.at("name").get<std::string>(),
                 .detail = {},
                 .start_us = json.at("ts").get<double>(),
                 .duration_us = json.at("dur").get<double>()};
  span.detail = arguments.value("operation", span.name);
  span.detail += ", " + std::to_string(arguments.value("bytes", std::uint64_t{0})) + " bytes";
  const std::string algorithm = arguments.value("algorithm", "");
  if (!algorithm.empty()) span.detail += " by " + algorithm;
  const std::string state = arguments.value("state", "done");
  if (state != "done") span.detail += ", " + state;
  return span;
}

}  // namespace

OptionTexts read_option_texts(const fs::path& file) {
  try {
    return Json::parse(read_whole_file(file)).get<OptionTexts>();
  } catch (const Json::exception& error) {
    throw std::runtime_error(file.string() + " is not a JSON object of texts: " + error.what());
  }
}

std::vector<StepRecord> mean_over_ranks(const std::vector<RankSteps>& ranks) {
  std::map<std::int64_t, StepRecord> steps;
  for (const RankSteps& rank : ranks) {
    for (const StepRecord& record : rank.records) {
      const StepRecord none{.epoch = record.epoch, .step = record.step, .global_step = record.global_step};
      StepRecord& sum = steps.try_emplace(record.global_step, none).first->second;
      sum.loss += record.loss * static_cast<double>(record.samples);
      sum.samples += record.samples;
    }
  }
  std::vector<StepRecord> means;
  for (auto& [step, sum] : steps) {
    if (sum.samples > 0) sum.loss /= static_cast<double>(sum.samples);
    means.push_back(sum);
  }
  return means;
}

std::vector<TraceSpan> read_trace(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string() + ": " + std::strerror(errno));
  // One event a line, as trace_file.cc writes them: so a trace of gigabytes needs no tree of all of it.
  std::vector<TraceSpan> spans;
  bool has_begun = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"traceEvents\":[") != std::string::npos) has_begun = true;
    if (line.find("\"ph\":\"X\"") == std::string::npos) continue;
    if (line.ends_with(',')) line.pop_back();
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    try {
      spans.push_back(span_from(json));
    } catch (const Json::exception&) {  // another program's event
    }
  }
  if (!has_begun) throw std::runtime_error(file.string() + " is no trace of tutti train --trace");
  return spans;
}

RunData read_run(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw std::runtime_error(folder.string() + " is no folder; give the one that tutti train had as --run-dir");
  }
  RunData run;
  run.folder = folder;
  read_report(run);
  read_options(run);
  read_all_steps(run);
  read_buckets(run);
  read_log(run);
  if (run.steps.empty() && run.options.empty() && run.report.epochs.empty()) {
    throw std::runtime_error("no run has written into " + folder.string() +
                             ": there are neither report.json nor options.json nor steps.jsonl");
  }
  return run;
}

void add_trace(RunData& run, const fs::path& named) {
  const fs::path trace_file = trace_of(run, named);
  if (trace_file.empty()) return;  // none was asked for
  remarking(run, "there is no message timeline", [&] { run.trace = read_trace(trace_file); });
}

}  // namespace tutti::trainer
