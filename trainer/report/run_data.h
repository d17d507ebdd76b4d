// RunData: what a run folder holds, read back. Whatever is missing or damaged is left out and said in `remarks`.
//
// Also read: the trace file of `tutti train --trace` (trace.h of comm), as far as it is shown. Values; functions
// over files that throw std::runtime_error only where the folder itself cannot be read.
#pragma once

#include <tutti/trainer/data_parallel/bucket_timing.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/report/run_report.h>
#include <tutti/trainer/report/step_records.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

struct RankSteps {
  int rank = 0;
  std::vector<StepRecord> records;
};

/// Of each global step the record whose loss is the mean over the samples of the ranks that have it.
std::vector<StepRecord> mean_over_ranks(const std::vector<RankSteps>& ranks);

/// One operation of one rank in a trace. Times in microseconds since the first operation of any rank.
struct TraceSpan {
  int rank = 0;
  bool is_message = false;  // else a collective
  std::string name;         // "all_reduce"
  std::string detail;       // "all_reduce seq 17 (sum float32 x 100), 400 bytes by ring"
  double start_us = 0;
  double duration_us = 0;
};

struct RunData {
  std::filesystem::path folder;
  RunReport report;                   // as far as `finished`, else its epochs alone
  bool finished = false;              // report.json is there: the run came to its end
  OptionTexts options;                // empty without options.json
  OptionTexts origin;                 // of run.json (run_recorder.h); empty for a run of an older version
  std::vector<RankSteps> steps;       // by rank; without those of other hosts
  std::vector<BucketTiming> buckets;  // rank 0's
  std::vector<TraceSpan> trace;
  std::vector<std::string> log;      // its last lines
  std::vector<std::string> remarks;  // sentences: what is not there, and why
};

/// All but the trace. Throws when `folder` is no folder that a run has written.
RunData read_run(const std::filesystem::path& folder);

/// Adds the trace: from `named`, or from the file that the options name if `named` is empty. A remark if there is none.
void add_trace(RunData& run, const std::filesystem::path& named);

/// options.json and run.json, which run_recorder.h writes. Throws std::runtime_error naming the file.
OptionTexts read_option_texts(const std::filesystem::path& file);

/// Throws std::runtime_error naming the file when it cannot be read or is no trace.
std::vector<TraceSpan> read_trace(const std::filesystem::path& file);

}  // namespace tutti::trainer
