// StepLine: on a terminal, what is being measured, how far that is, and how long the rest may take.
//
// Thread-safety: none.
#pragma once

#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/trainer/report/progress.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace tutti::tools::bench {

/// "all_reduce 4096 B  step 3/40  12 s left": two steps are done, in `elapsed`. Nothing is said of the time before
/// that.
inline std::string progress_text(const std::string& what, std::size_t done, std::size_t steps,
                                 std::chrono::duration<double> elapsed) {
  const std::string text = comm::format("%s  step %zu/%zu", what.c_str(), done + 1, steps);
  const double left = elapsed.count() / static_cast<double>(done) * static_cast<double>(steps - done);
  return done == 0 ? text : text + "  " + trainer::time_left(left);
}

/// On standard error, which a launcher shows on its own terminal.
class StepLine : public comm::LiveLine {
 public:
  /// `speaks`: false for ranks that show nothing. `columns`: of the launcher's terminal, or 0 if it has none.
  StepLine(bool speaks, std::size_t steps, std::size_t columns)
      : LiveLine(speaks ? stderr : nullptr, columns > 0), steps_(steps) {}

  /// The next step begins.
  void next(const std::string& what) {
    show(progress_text(what, done_++, steps_, std::chrono::steady_clock::now() - begin_));
  }

 private:
  const std::size_t steps_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t done_ = 0;
};

}  // namespace tutti::tools::bench
