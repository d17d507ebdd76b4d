// Progress: what a person sees while training runs. On a terminal one live line, in a pipe one plain line per epoch,
// and with log_every one per so many steps.
//
// Only rank 0 makes one that prints; those of the others put their steps into the log of all ranks. A step costs a look
// at the clock where a live line is shown, which then changes a few times a second. Thread-safety: none. Ownership: the
// streams must outlive this object.
#pragma once

#include <tutti/comm/base/terminal.h>
#include <tutti/trainer/report/run_log.h>
#include <tutti/trainer/report/run_report.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>

namespace tutti::trainer {

/// "12 s left".
std::string time_left(double seconds);

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// Silent.
  Progress() = default;
  /// `live`: the file behind `out`, which has a terminal or a launcher behind it (comm::LiveLine); null: no live line.
  /// Whole lines are wrapped to `columns`, if it is not 0. `data_note` is put into every line that shows results: "" or
  /// "  [generated digits]". `log_every`: steps from plain line to plain line; 0: none.
  Progress(std::ostream& out, std::FILE* live, std::size_t columns, int total_epochs, std::string data_note,
           std::int64_t log_every = 0);
  /// Of a rank that prints nothing: `log`, which must outlive this object, gets its line for so many steps.
  Progress(RunLog& log, int total_epochs, std::string data_note, std::int64_t log_every);

  /// An epoch of `steps` steps, of `batch` samples each on all ranks together.
  void start_epoch(int epoch, std::int64_t steps, std::int64_t batch, Clock::time_point now = Clock::now());
  /// Step `index`, from 0, is done. `loss`: of this rank's samples.
  void step(std::int64_t index, double loss) {
    if (live_ != nullptr || log_every_ > 0) show(index, loss, Clock::now());
  }
  void show(std::int64_t index, double loss, Clock::time_point now);
  /// Of an evaluation `count` of `batches` are done: a live line alone.
  void evaluated(std::int64_t count, std::int64_t batches, Clock::time_point now = Clock::now());
  /// The live line.
  void clear() {
    if (live_ != nullptr) live_->clear();
  }
  void end_epoch(const EpochReport& report);
  void line(const std::string& text);  // a whole line, above the live one
  /// Whole lines go to `log`, too, which must outlive this object.
  void also_to(RunLog& log) { log_ = &log; }

 private:
  void print(const std::string& text);

  std::ostream* out_ = nullptr;
  std::unique_ptr<comm::LiveLine> live_;
  std::size_t columns_ = 0;
  RunLog* log_ = nullptr;
  int total_epochs_ = 0;
  std::string data_note_;
  std::int64_t log_every_ = 0;
  int epoch_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t batch_ = 0;
  std::int64_t done_ = 0;  // steps of this epoch by this process
  Clock::time_point began_;
  Clock::time_point shown_;
};

}  // namespace tutti::trainer
