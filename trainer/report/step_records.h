// One line of JSON for each training step of a rank: RUN_DIR/steps.jsonl (rank 0), RUN_DIR/steps-rank-1.jsonl, ...
//
//   {"epoch":1,"step":0,"global_step":0,"loss":2.302,"learning_rate":0.001,"samples":64,"seconds":0.0001,"wait_seconds":0}
//
// Numbers are written so that they come back bit for bit; a number that is none (a loss that diverged) is null. `loss`
// is the mean over the rank's own samples: over the ranks' files, weighted with `samples`, it is that of the step.
#pragma once

#include <tutti/trainer/report/append_file.h>
#include <tutti/trainer/step_info.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::trainer {

/// As far as the line has it.
using StepRecord = StepInfo;

/// Writes the line, its newline included, and returns its length: at most kMaxStepLine.
inline constexpr std::size_t kMaxStepLine = 512;
std::size_t write_step_line(const StepInfo& info, char* out);

std::filesystem::path steps_file(const std::filesystem::path& run_dir, int rank);

/// The ranks whose files lie in `run_dir`, in order.
std::vector<int> ranks_with_steps(const std::filesystem::path& run_dir);

struct StepsRead {
  std::vector<StepRecord> records;  // in the order of the file
  std::size_t bad_lines = 0;  // that are no such record; a half last line, which a killed run leaves, is not counted
};

/// Throws std::runtime_error naming the file when it cannot be read.
StepsRead read_steps(const std::filesystem::path& file);

/// The file of one rank while it trains. Costs under a microsecond a step, allocates nothing, and flushes after each
/// second of steps. Thread-safety: none.
class StepsWriter {
 public:
  /// Continues `file` with the step `first_global_step`: records of that step and later ones, which a run wrote that
  /// went on after the checkpoint we start from, are dropped, and so is a half last line. Throws std::runtime_error
  /// naming the file, as add() and flush() do.
  StepsWriter(const std::filesystem::path& file, std::int64_t first_global_step);

  void add(const StepInfo& info);
  void flush();

 private:
  AppendFile file_;
  double unflushed_seconds_ = 0;
};

/// Drops the records of `first_global_step` and later ones from a file that nobody continues. Does nothing when there
/// is none.
void cut_steps(const std::filesystem::path& file, std::int64_t first_global_step);

}  // namespace tutti::trainer
