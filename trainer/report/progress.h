// Progress: what a person sees while training runs. On a terminal one live line, in a pipe one plain line per epoch.
//
// Only rank 0 makes one that writes; the others make a silent one. step() costs one comparison except about a hundred
// times an epoch on a terminal.
// Thread-safety: none. Ownership: the stream must outlive this object.
#pragma once

#include <tutti/trainer/report/run_log.h>
#include <tutti/trainer/report/run_report.h>

#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>

namespace tutti::trainer {

class Progress {
 public:
  /// Silent.
  Progress() = default;
  /// `live`: the terminal behind `out`, for the one sequence that texts must not hold; null: there is none.
  /// `data_note` is put into every line that shows results: "" or " [generated digits]".
  Progress(std::ostream& out, std::FILE* live, int total_epochs, std::string data_note);

  void start_epoch(int epoch, std::int64_t steps);
  void step(std::int64_t index, double loss) {
    if (index >= next_shown_) show(index, loss);
  }
  void end_epoch(const EpochReport& report);
  void line(const std::string& text);  // a whole line, above the live one
  /// Whole lines go to `log`, too, which must outlive this object.
  void also_to(RunLog& log) { log_ = &log; }

 private:
  void show(std::int64_t index, double loss);
  void clear();

  std::ostream* out_ = nullptr;
  std::FILE* live_ = nullptr;
  RunLog* log_ = nullptr;
  bool line_open_ = false;
  int total_epochs_ = 0;
  std::string data_note_;
  int epoch_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t stride_ = 1;
  std::int64_t next_shown_ = INT64_MAX;
};

}  // namespace tutti::trainer
