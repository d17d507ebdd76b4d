#include <tutti/comm/base/blocked_signals.h>
#include <tutti/comm/base/format.h>
#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/tensor_comm.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

constexpr double kLongWait = 1;  // seconds

}  // namespace

Checkpointer::Checkpointer(comm::ProcessGroup& group, CheckpointerOptions options,
                           std::map<std::string, std::string> agreed, nn::Module& model, nn::Optimizer& optimizer,
                           Progress& progress, TrainRequests* requests)
    : group_(group),
      options_(std::move(options)),
      agreed_(std::move(agreed)),
      model_(model),
      optimizer_(optimizer),
      progress_(progress),
      requests_(requests) {
  if (options_.dir.empty()) return;
  on_rank0(group_, [this] {
    locks_.push_back(std::make_unique<FolderLock>(options_.dir));
    std::error_code absent;
    if (!options_.run_dir.empty() && !std::filesystem::equivalent(options_.dir, options_.run_dir, absent))
      locks_.push_back(std::make_unique<FolderLock>(options_.run_dir));
    clear_left_overs(options_.dir);
    writer_ = std::make_unique<CheckpointWriter>(options_.dir, options_.keep);
    return std::string();
  });
}

std::optional<ResumedCheckpoint> Checkpointer::resume() {
  auto resumed = resume_checkpoint(group_, options_.dir, agreed_, model_, optimizer_);
  if (!resumed) return resumed;
  for (const std::string& warning : resumed->warnings) progress_.line("WARNING: " + warning);
  if (resumed->has_exchange) exchange_ranks_ = resumed->world_size;
  resumed_exchange_ = std::move(resumed->exchange);
  return resumed;
}

void Checkpointer::start(DataParallel& parallel) {
  parallel_ = &parallel;
  if (options_.dir.empty()) return;
  if (GradientExchange* const exchange = parallel.exchange(); exchange != nullptr && exchange_ranks_ > 0) {
    scatter_exchange_state(group_, resumed_exchange_, *exchange);
    if (exchange_ranks_ != group_.world_size()) {
      progress_.line("the error feedback of " + exchange->name() + " is that of " + std::to_string(exchange_ranks_) +
                     " ranks: its sum is dealt out evenly");
    }
  }
  resumed_exchange_.clear();
  if (requests_ != nullptr) requests_->listen();
}

void Checkpointer::before_exchange() const {
  if (options_.dir.empty()) return;
  const bool failed = writer_ && writer_->failure();
  if (failed || (requests_ != nullptr && requests_->checkpoint_asked())) parallel_->ask(Request::Checkpoint);
  if (requests_ != nullptr && requests_->stop_asked()) parallel_->ask(Request::Stop);
}

bool Checkpointer::after_step(const StepInfo& info, const std::function<EpochSoFar()>& so_far) {
  if (options_.dir.empty()) return true;
  const bool last = info.step + 1 == info.steps_per_epoch;  // the epoch's own checkpoint follows
  const bool due = options_.every > 0 && (info.global_step + 1) % options_.every == 0;
  if (info.stop_asked || ((due || info.checkpoint_asked) && !last)) {
    EpochSoFar now = so_far();
    CheckpointState state{.epoch = info.epoch - 1, .step = info.step + 1, .steps_per_epoch = info.steps_per_epoch};
    state.history = std::move(now.history);
    state.seconds = now.seconds;
    const auto folder = options_.dir / checkpoint_folder_name(state.epoch, state.step);
    save(std::move(state), now.sum);
    if (info.stop_asked) stopped_at_ = folder;
    if (info.checkpoint_asked && writer_) asked_for_ = folder;
  }
  if (info.checkpoint_asked && requests_ != nullptr) requests_->checkpoint_taken();
  announce();
  return !info.stop_asked;
}

void Checkpointer::end_epoch(int epoch, std::int64_t steps_per_epoch, const std::string& history) {
  if (options_.dir.empty()) return;
  CheckpointState state{.epoch = epoch, .steps_per_epoch = steps_per_epoch};
  state.history = history;
  save(std::move(state), {});
  announce();
}

void Checkpointer::finish() {
  if (options_.dir.empty()) return;
  with_writer([this] { writer_->finish(); });
  announce();
}

void Checkpointer::save(CheckpointState state, const std::optional<LossSum>& sum) {
  EncodedCheckpoint* space = nullptr;
  with_writer([&] { space = &wait_for_space(); });
  if (sum) state.sums = all_gather_values(group_, *sum);
  const NamedTensors of_optimizer = full_optimizer_state(optimizer_);
  const NamedTensors of_exchange = gather_exchange_state(group_, parallel_->exchange());
  if (space == nullptr) return;
  const auto folder = options_.dir / checkpoint_folder_name(state.epoch, state.step);
  if (options_.may_be_there && std::filesystem::exists(folder)) return;
  state.world_size = group_.world_size();
  state.options = agreed_;
  space->state = std::move(state);
  encode_checkpoint(model_tensors(model_), of_optimizer, of_exchange, *space);
  writer_->start();
}

/// Runs `action` on rank 0. Its failure is every rank's, with the checkpoint to go on from.
void Checkpointer::with_writer(const std::function<void()>& action) {
  on_rank0(group_, [&] {
    try {
      action();
      return std::string();
    } catch (const std::runtime_error& error) {
      std::optional<std::filesystem::path> newest;
      try {
        newest = newest_checkpoint(options_.dir);
      } catch (const std::runtime_error&) {  // the failure may be that the folder cannot be read any more
      }
      throw std::runtime_error(error.what() +
                               (newest ? "; the newest complete checkpoint is " + newest->string() +
                                             ": repair the cause (room, permissions) and continue with --resume"
                                       : "; there is no complete checkpoint yet"));
    }
  });
}

/// Memory for the next checkpoint, once the one before is written.
EncodedCheckpoint& Checkpointer::wait_for_space() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  EncodedCheckpoint& space = writer_->space();
  const std::chrono::duration<double> waited = Clock::now() - start;
  if (waited.count() > kLongWait && !told_of_waiting_) {
    told_of_waiting_ = true;
    progress_.line(
        comm::format("training waited %.1f s until the checkpoint before was written; a larger --checkpoint-every or a "
                     "faster disk avoids that",
                     waited.count()));
  }
  return space;
}

void Checkpointer::announce() {
  if (!asked_for_ || !writer_ || writer_->last_complete() != asked_for_) return;
  progress_.line("checkpoint " + asked_for_->string() + " is complete, as asked for");
  asked_for_.reset();
}

LossSum sum_of_rank(const std::vector<LossSum>& saved, int rank, int world_size) {
  if (saved.size() == static_cast<std::size_t>(world_size)) return saved[static_cast<std::size_t>(rank)];
  LossSum total;
  for (const LossSum& sum : saved) {
    total.loss += sum.loss;
    total.samples += sum.samples;
  }
  return rank == 0 ? total : LossSum{};
}

EncodedCheckpoint& CheckpointWriter::space() {
  finish();
  return space_;
}

void CheckpointWriter::start() {
  if (write_.valid()) throw std::logic_error("CheckpointWriter::start: a write is under way; call space() first");
  const comm::BlockedSignals blocked;
  write_ = std::async(std::launch::async, [this] {
    auto folder = write_checkpoint(dir_, space_);
    remove_old_checkpoints(dir_, keep_);
    return folder;
  });
}

void CheckpointWriter::finish() {
  if (write_.valid()) write_.wait();
  if (failure()) throw std::runtime_error(*failure_);
}

const std::optional<std::string>& CheckpointWriter::failure() {
  collect();
  return failure_;
}

const std::optional<std::filesystem::path>& CheckpointWriter::last_complete() {
  collect();
  return last_complete_;
}

/// What a write that is done has to tell.
void CheckpointWriter::collect() {
  if (!write_.valid() || write_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  try {
    last_complete_ = write_.get();
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
}

}  // namespace tutti::trainer
