// RunRecorder: what a run leaves in RUN_DIR while it trains, on each rank.
//
//   options.json         what was asked (rank 0)
//   run.json             when, where and by what command the run, or its continuation, was started (rank 0)
//   steps.jsonl          the steps of rank 0; those of the others are steps-rank-1.jsonl, ... (step_records.h)
//   buckets.json         what the exchange of each bucket of gradients cost on rank 0 (bucket_timing.h)
//   tensorboard/rank-0/  event files: about 100 points an epoch, each the mean over its steps
//   log.txt              the lines that rank 0 prints; warnings, errors and --log-every of any rank (run_log.h)
//
// A resumed run continues the files: records of steps that it repeats are dropped, TensorBoard is told to forget them.
// A run that starts from the beginning replaces records and events of an earlier one, and appends to the log.
//
// A step costs about half a microsecond and allocates nothing, but where it ends a point of a curve. Records are
// flushed after every second of steps, before each checkpoint, at the end of each epoch, and by the destructor. A disk
// that is full does not end the training: the rank warns once, and records no further. Thread-safety: none; the
// training thread. Nothing here is collective.
#pragma once

#include <tutti/trainer/data_parallel/bucket_timing.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/report/run_log.h>
#include <tutti/trainer/report/run_report.h>
#include <tutti/trainer/step_info.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tutti::trainer {

/// A flat JSON object; bytes that are no UTF-8 are replaced. run_data.h reads it.
std::string option_texts_to_json(const OptionTexts& texts);

/// A table in Markdown, whose cells are escaped.
std::string option_texts_to_markdown(const OptionTexts& texts);

struct RecorderOptions {
  std::filesystem::path run_dir{};  // empty: nothing is recorded
  int rank = 0;
  int world_size = 1;
  OptionTexts options{};
  std::function<void(const std::string& sentence)> warn{};  // empty: comm::log
};

class RunRecorder {
 public:
  /// Creates no file yet.
  explicit RunRecorder(RecorderOptions options);
  ~RunRecorder();
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  /// Opens the files; the next step is `first_global_step`. Throws std::runtime_error naming what cannot be written.
  void start(std::int64_t first_global_step);

  void step(const StepInfo& info) {
    if (files_) record(info);
  }

  /// After an epoch and its evaluation: the same report on every rank.
  void epoch(const EpochReport& report, std::span<const BucketTiming> buckets = {});

  /// Hands all records to the kernel: what was recorded until now survives the death of this process.
  void flush();

  RunLog& log() { return log_; }

 private:
  struct Files;

  void record(const StepInfo& info);
  template <typename Action>
  void or_give_up(const Action& action);

  const RecorderOptions options_;
  RunLog log_;
  std::unique_ptr<Files> files_;
};

}  // namespace tutti::trainer
