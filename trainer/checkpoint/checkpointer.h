// Checkpointer: the checkpoints of a training run, as the loop sees them. All ranks call the same, in the same order.
//
//   Checkpointer checkpointer(group, options, agreed, *model, *optimizer, progress, requests);
//   if (const auto state = checkpointer.resume()) ...
//   checkpointer.start(parallel);
//   in each step, before gradients leave:  checkpointer.before_exchange();
//   after each step:   if (!checkpointer.after_step(info, so_far)) leave the epoch and the run;
//   after each epoch:  checkpointer.end_epoch(epoch, history);
//   at the end:        checkpointer.finish();
//
// When: at the end of each epoch, every `every` steps of the whole run, and when a rank is asked (requests.h). That a
// rank was asked travels with the gradients of the step it is in, so that all ranks act after the same step, and no
// collective is added to a step. The step of a checkpoint itself costs one all_gather of the loss sums, and rank 0's
// word that it can be written.
//
// How: rank 0 copies model and optimizer in memory; its writer thread (CheckpointWriter) does the rest while training
// goes on. Layers' running statistics are rank 0's: those of other ranks end with the epoch, and nothing depends on
// them. If a write fails, rank 0 asks for a checkpoint, whose first act is to tell all ranks why: every rank throws the
// same std::runtime_error within a step of the failure, or in end_epoch or finish.
//
// Without a folder every call does nothing. Thread-safety: the training thread's. Ownership: what is passed by
// reference must outlive it. The destructor waits for a write that is under way.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/checkpoint_folder.h>
#include <tutti/trainer/checkpoint/requests.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/report/progress.h>
#include <tutti/trainer/step_info.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::trainer {

// CheckpointWriter: writes a checkpoint on another thread while training goes on.
//
//   CheckpointWriter writer(dir, 3);
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

class CheckpointWriter {
 public:
  /// `keep`: how many complete checkpoints stay; 0: all.
  CheckpointWriter(std::filesystem::path dir, int keep) : dir_(std::move(dir)), keep_(keep) {}

  /// Blocks while a write is under way. Throws std::runtime_error with the failure of an earlier one.
  EncodedCheckpoint& space();

  /// Begins to write what was put into space().
  void start();

  /// Blocks until the last write is durable. Throws as space() does.
  void finish();

  /// What went wrong so far; does not block.
  const std::optional<std::string>& failure();

  /// The newest folder that this writer has completed; does not block.
  const std::optional<std::filesystem::path>& last_complete();

 private:
  void collect();

  const std::filesystem::path dir_;
  const int keep_;
  EncodedCheckpoint space_;  // the writing thread's while there is one, else the caller's
  std::optional<std::string> failure_;
  std::optional<std::filesystem::path> last_complete_;
  std::future<std::filesystem::path> write_;  // under way, or done and not collected; last: it uses the above
};

struct CheckpointerOptions {
  std::filesystem::path dir;        // empty: no checkpoints
  std::filesystem::path run_dir{};  // if set: locked as dir is, since the run is recorded there
  std::int64_t every = 0;           // steps of the whole run between two checkpoints within epochs; 0: none there
  int keep = 3;                     // how many stay; 0: all
  bool may_be_there = false;        // a checkpoint of the same position is kept: the step is done again after a failure
};

/// What a checkpoint within an epoch holds besides model and optimizer.
struct EpochSoFar {
  std::string history;  // of the epochs before
  LossSum sum;          // this rank's
  double seconds = 0;
};

class Checkpointer {
 public:
  /// Collective. Rank 0 takes the folder for this run and clears away what a killed run has left there. `agreed`: what
  /// a continuation must share. `requests` may be null.
  Checkpointer(comm::ProcessGroup& group, CheckpointerOptions options, std::map<std::string, std::string> agreed,
               nn::Module& model, nn::Optimizer& optimizer, Progress& progress, TrainRequests* requests);

  /// Collective. resume_checkpoint in the run's folder; warnings are printed.
  std::optional<ResumedCheckpoint> resume();

  /// Collective. Gives the exchange of `parallel`, which must outlive the training, what it remembered in the
  /// checkpoint. From here on requests are heard.
  void start(DataParallel& parallel);

  /// Asks the other ranks what this one was asked, or has to tell.
  void before_exchange() const;

  /// Collective. `so_far` is called only when a checkpoint is written. Returns false when the run is to end here.
  bool after_step(const StepInfo& info, const std::function<EpochSoFar()>& so_far);

  /// Collective. `epoch` from 1; it was evaluated, and `history` holds it.
  void end_epoch(int epoch, std::int64_t steps_per_epoch, const std::string& history);

  /// Collective. Returns when the last checkpoint is durable.
  void finish();

  /// The checkpoint with which the run ended because it was asked to, once after_step has returned false.
  const std::optional<std::filesystem::path>& stopped_at() const { return stopped_at_; }

 private:
  void save(CheckpointState state, const std::optional<LossSum>& sum);
  void with_writer(const std::function<void()>& action);
  EncodedCheckpoint& wait_for_space();
  void announce();

  comm::ProcessGroup& group_;
  const CheckpointerOptions options_;
  const std::map<std::string, std::string> agreed_;
  nn::Module& model_;
  nn::Optimizer& optimizer_;
  Progress& progress_;
  TrainRequests* requests_;
  DataParallel* parallel_ = nullptr;
  int exchange_ranks_ = 0;         // of the checkpoint that the run began with, if it holds an exchange's memory
  NamedTensors resumed_exchange_;  // on rank 0
  std::vector<std::unique_ptr<FolderLock>> locks_;  // rank 0
  std::unique_ptr<CheckpointWriter> writer_;        // rank 0
  std::optional<std::filesystem::path> asked_for_;  // rank 0: a checkpoint to tell of once it is complete
  std::optional<std::filesystem::path> stopped_at_;
  bool told_of_waiting_ = false;
};

/// This rank's sum out of those that a checkpoint holds of all ranks. Where their number has changed, rank 0 continues
/// the total.
LossSum sum_of_rank(const std::vector<LossSum>& saved, int rank, int world_size);

}  // namespace tutti::trainer
