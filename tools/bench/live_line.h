// LiveLine: on a terminal, what is being measured, how far that is, and how long the rest may take.
//
// Rank 0 shows one on standard error, which its launcher shows on its own terminal; in a pipe there is none. What is
// printed next takes its place. Thread-safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tutti::tools::bench {

/// "all_reduce 4096 B  step 3/40  12 s left": two steps are done, in `elapsed`. Nothing is said of the time before
/// that.
std::string progress_text(const std::string& what, std::size_t done, std::size_t steps,
                          std::chrono::duration<double> elapsed);

class LiveLine {
 public:
  /// `columns`: of the terminal of the launcher that started these ranks, or 0; without it and a terminal here nothing
  /// is shown, nor by ranks that do not speak.
  LiveLine(bool speaks, std::size_t steps, std::size_t columns);
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;

  /// The next step begins.
  void next(const std::string& what);
  /// To be called before anything else is printed.
  void clear();

 private:
  const std::size_t steps_;
  const std::size_t own_columns_;  // of this process's terminal; 0: it has none
  const bool shown_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t done_ = 0;
  bool open_ = false;
};

}  // namespace tutti::tools::bench
