// RunLog: one text file for what all ranks of a run have to say, RUN_DIR/log.txt.
//
//   2026-03-01 12:00:00.123 rank 1: warning: rank 0 has not answered for 5 s
//
// Each line is one write to a file opened for appending, so that lines of several processes do not mix (on NFS, which
// has no such writes, ranks of different hosts may overwrite each other's lines). A run that starts or resumes appends.
// What the log cannot write it drops: a run does not fail for its log. Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace tutti::trainer {

/// "2026-03-01 12:00:00.123", local time.
std::string now_as_text();

class RunLog {
 public:
  /// Drops everything.
  RunLog() = default;
  /// Opens `run_dir`/log.txt at the first line, and creates the folder then if need be.
  RunLog(std::filesystem::path run_dir, int rank);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// A text of several lines becomes several lines of the log; empty ones are left out.
  void line(std::string_view text);

 private:
  const std::filesystem::path run_dir_;
  const int rank_ = 0;
  std::mutex mutex_;
  int descriptor_ = -1;  // guarded by mutex_
};

}  // namespace tutti::trainer
