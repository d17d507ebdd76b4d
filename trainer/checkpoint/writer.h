// CheckpointWriter: one thread that writes checkpoints while training goes on.
//
//   CheckpointWriter writer(dir, {.keep = 3});
//   EncodedCheckpoint& space = writer.space();   // waits until the write before is done; throws if it failed
//   ... encode_checkpoint(..., space) ...
//   writer.start();                              // returns at once
//   writer.finish();                             // until it is durable; throws if it failed
//
// At most one write is under way, and the next one waits for it: a checkpoint that was asked for is never left out, so
// that no more work can be lost than --checkpoint-every says. Memory for one copy of model and optimizer is kept and
// used again. A checkpoint is first complete and on the disk (checkpoint.h), then older ones beyond `keep` are deleted.
//
// Errors: the first failure stays; failure(), space() and finish() tell it. Nothing is written after it.
// Thread-safety: one thread drives the writer. The destructor waits for a write that is under way.
#pragma once

#include <tutti/trainer/checkpoint/checkpoint.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tutti::trainer {

class CheckpointWriter {
 public:
  /// `keep`: how many complete checkpoints stay; 0: all.
  CheckpointWriter(std::filesystem::path dir, int keep);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Blocks while a write is under way. Throws std::runtime_error with the failure of an earlier one.
  EncodedCheckpoint& space();

  /// Begins to write what was put into space().
  void start();

  /// Blocks until the last write is durable. Throws as space() does.
  void finish();

  /// What went wrong so far; does not block.
  std::optional<std::string> failure() const;

  /// The newest folder that this writer has completed; does not block.
  std::optional<std::filesystem::path> last_complete() const;

 private:
  void run();
  void write();

  const std::filesystem::path dir_;
  const int keep_;
  EncodedCheckpoint space_;  // the writer's while busy_, else the caller's

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool busy_ = false;
  bool stopping_ = false;
  std::optional<std::string> failure_;
  std::optional<std::filesystem::path> last_complete_;

  std::thread thread_;
};

}  // namespace tutti::trainer
