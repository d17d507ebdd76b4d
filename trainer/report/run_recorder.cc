#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/log.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/json_fields.h>
#include <tutti/trainer/report/run_recorder.h>
#include <tutti/trainer/report/step_records.h>
#include <tutti/trainer/report/tensorboard_events.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kPointsPerEpoch = 100;

/// Means over the steps since the last point of the curve.
struct Point {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double loss = 0;  // over the samples
  double seconds = 0;
  double wait_seconds = 0;
};

fs::path events_folder(const RecorderOptions& options) {
  return options.run_dir / "tensorboard" / ("rank-" + std::to_string(options.rank));
}

/// This process's command line, as a shell would read it.
std::string command_line() {
  std::ifstream words("/proc/self/cmdline");
  std::string line;
  for (std::string word; std::getline(words, word, '\0');) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`*?;&|<>()[]{}#~!") == std::string::npos;
    line += (line.empty() ? "" : " ") + (plain ? word : comm::shell_quoted(word));
  }
  return line;
}

/// As the kernel calls it; "" where it has no name for it.
std::string cpu_name() {
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

/// When, where and by what command this process was started: for the head of the page.
OptionTexts origin_texts() {
  return {{"started", now_as_text().substr(0, 19)},  // to the second
          {"host", comm::host_name()},
          {"command", command_line()},
          {"version", TUTTI_VERSION},
          {"cpu", cpu_name()},
          {"cpus", std::to_string(std::thread::hardware_concurrency())}};
}

/// What an earlier run left: the ranks that this one does not have keep what still holds.
void cut_what_is_repeated(const RecorderOptions& options, std::int64_t first_global_step) {
  if (first_global_step == 0) fs::remove_all(events_folder(options));
  if (options.rank != 0) return;
  for (const int rank : ranks_with_steps(options.run_dir)) {
    if (rank < options.world_size) continue;
    const fs::path file = steps_file(options.run_dir, rank);
    if (first_global_step > 0) {
      cut_steps(file, first_global_step);
    } else {
      fs::remove(file);
      fs::remove_all(options.run_dir / "tensorboard" / ("rank-" + std::to_string(rank)));
    }
  }
}

/// A cell of a table in Markdown.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\`*_{}[]<>()#+-.!|&").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

}  // namespace

std::string option_texts_to_json(const OptionTexts& texts) {
  return Json(texts).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string option_texts_to_markdown(const OptionTexts& texts) {
  std::string table = "| option | value |\n| --- | --- |\n";
  for (const auto& [name, value] : texts) table += "| " + cell(name) + " | " + cell(value) + " |\n";
  return table;
}

struct RunRecorder::Files {
  Files(const RecorderOptions& options, std::int64_t first_global_step)
      : steps(steps_file(options.run_dir, options.rank), first_global_step),
        events(events_folder(options), first_global_step),
        next_step(first_global_step) {}

  void add_point(const StepInfo& info);

  StepsWriter steps;
  EventWriter events;
  std::int64_t next_step;
  Point point;
};

void RunRecorder::Files::add_point(const StepInfo& info) {
  ++point.steps;
  point.samples += info.samples;
  point.loss += info.loss * static_cast<double>(info.samples);
  point.seconds += info.seconds;
  point.wait_seconds += info.wait_seconds;
  const std::int64_t stride = std::max<std::int64_t>(1, info.steps_per_epoch / kPointsPerEpoch);
  if (info.step % stride != 0 && info.step + 1 != info.steps_per_epoch) return;
  const double steps_of_point = static_cast<double>(point.steps);
  const std::array<Scalar, 4> scalars{
      {{"loss/step", point.samples > 0 ? point.loss / static_cast<double>(point.samples) : 0},
       {"learning_rate", info.learning_rate},
       {"seconds/step", point.seconds / steps_of_point},
       {"seconds/wait", point.wait_seconds / steps_of_point}}};
  events.scalars(info.global_step, scalars);
  point = {};
}

RunRecorder::RunRecorder(RecorderOptions options)
    : options_(std::move(options)), log_(options_.run_dir, options_.rank) {}

RunRecorder::~RunRecorder() = default;

void RunRecorder::start(std::int64_t first_global_step) {
  if (options_.run_dir.empty()) return;
  fs::create_directories(options_.run_dir);
  cut_what_is_repeated(options_, first_global_step);
  files_ = std::make_unique<Files>(options_, first_global_step);
  if (options_.rank != 0) return;
  replace_file(options_.run_dir / "options.json", option_texts_to_json(options_.options));
  replace_file(options_.run_dir / "run.json", option_texts_to_json(origin_texts()));
  files_->events.text(first_global_step, "options", option_texts_to_markdown(options_.options));
}

void RunRecorder::record(const StepInfo& info) {
  or_give_up([&] {
    files_->steps.add(info);
    files_->add_point(info);
    files_->next_step = info.global_step + 1;
  });
}

void RunRecorder::epoch(const EpochReport& report, std::span<const BucketTiming> buckets) {
  if (files_ && options_.rank == 0) {
    or_give_up([&] {
      std::array<Scalar, 5> scalars{{{"loss/train", report.train_loss}, {"seconds/epoch", report.seconds}}};
      std::size_t count = 2;
      if (report.test_loss) scalars[count++] = {"loss/test", *report.test_loss};
      if (report.test_accuracy) scalars[count++] = {"accuracy/test", *report.test_accuracy};
      if (report.train_accuracy) scalars[count++] = {"accuracy/train", *report.train_accuracy};
      files_->events.scalars(std::max<std::int64_t>(0, files_->next_step - 1), std::span(scalars).first(count));
      if (!buckets.empty()) replace_file(options_.run_dir / "buckets.json", Json(buckets).dump() + "\n");
    });
  }
  flush();
}

void RunRecorder::flush() {
  if (!files_) return;
  or_give_up([this] {
    files_->steps.flush();
    files_->events.flush();
  });
}

template <typename Action>
void RunRecorder::or_give_up(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    files_.reset();
    const std::string sentence =
        "rank " + std::to_string(options_.rank) + " stops recording its steps, the training goes on: " + error.what();
    options_.warn ? options_.warn(sentence) : comm::log(comm::LogLevel::Warn, sentence);
  }
}

}  // namespace tutti::trainer
