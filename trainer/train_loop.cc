#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/nn/shared_batch.h>
#include <tutti/tensor/products.h>
#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/elastic/elastic_training.h>
#include <tutti/trainer/evaluate.h>
#include <tutti/trainer/parallel_options.h>
#include <tutti/trainer/report/progress.h>
#include <tutti/trainer/report/run_recorder.h>
#include <tutti/trainer/report/summary.h>
#include <tutti/trainer/run_inputs.h>
#include <tutti/trainer/task.h>
#include <tutti/trainer/tensor_comm.h>
#include <tutti/trainer/train_loop.h>
#include <tutti/trainer/train_step.h>
#include <tutti/trainer/update_rule.h>

#include <chrono>
#include <memory>

namespace tutti::trainer {
namespace {

class Run {
 public:
  Run(const TrainOptions& options, comm::ProcessGroup& group, int threads, const ElasticRun* elastic);
  ~Run() { nn::leave_shared_batch(model_.get()); }
  RunReport execute(const TrainOutput& output);

 private:
  void set_up(const TrainOutput& output);
  void make_model();
  std::string load_weights();
  void resume();
  bool continue_with_others();
  void commit(const CheckpointPosition& position);
  void announce(const TrainOutput& output);
  bool train_one_epoch(int epoch);
  bool after_step(const StepInfo& info);
  EpochSoFar epoch_so_far() const;
  Evaluation evaluate_epoch();
  void finish(const Evaluation& last);
  void stop(int epoch);

  const TrainOptions& options_;
  comm::ProcessGroup& group_;
  comm::Chaos chaos_;
  const ElasticRun* elastic_;
  RunInputs inputs_;
  const std::int64_t steps_per_epoch_;
  Objective objective_;
  std::shared_ptr<nn::Module> model_;
  std::shared_ptr<nn::Optimizer> optimizer_;
  std::unique_ptr<DataParallel> parallel_;
  std::unique_ptr<StepGraphs> graphs_;
  std::unique_ptr<RunRecorder> recorder_;
  Progress progress_;
  std::unique_ptr<Checkpointer> checkpointer_;
  RunReport report_;
  CheckpointPosition start_;         // where this run begins
  LossSum epoch_sum_;                // of the epoch under way
  double seconds_before_ = 0;        // that the epoch under way took before this run
  std::int64_t samples_before_ = 0;  // of all ranks, likewise
  std::chrono::steady_clock::time_point epoch_start_;
  std::size_t columns_ = 0;   // of the screen
  std::string weights_note_;  // what --weights gave
  double seconds_of_this_run_ = 0;
  double samples_of_this_run_ = 0;
};

Run::Run(const TrainOptions& options, comm::ProcessGroup& group, int threads, const ElasticRun* elastic)
    : options_(options),
      group_(group),
      chaos_(elastic == nullptr || elastic->generation == 0 ? options.chaos : ""),  // ranks mean others later on
      elastic_(elastic),
      inputs_(
          open_inputs(options, group,
                      elastic != nullptr ? ElasticInputs{elastic->first_size, elastic->state.data} : ElasticInputs{})),
      steps_per_epoch_(inputs_.steps_per_epoch()),
      objective_(objective_of(options.model)),
      report_(report_of(options, inputs_.data->train, group.world_size(), threads)) {
  recorder_ = std::make_unique<RunRecorder>(
      RecorderOptions{.run_dir = options.run_dir,
                      .rank = group.rank(),
                      .world_size = group.world_size(),
                      .options = recorded_options(options, inputs_.agreed, group.world_size(), threads)});
  report_.global_batch = inputs_.global_batch;
  if (group.rank() == 0) chaos_.warn_of_absent_ranks(group.world_size());
}

void Run::set_up(const TrainOutput& output) {
  make_model();
  const CheckpointerOptions saving{.dir = options_.checkpoint_dir,
                                   .run_dir = options_.run_dir,
                                   .every = options_.checkpoint_every,
                                   .keep = options_.keep_checkpoints,
                                   .may_be_there = elastic_ != nullptr};
  columns_ = output.columns;
  checkpointer_ =
      std::make_unique<Checkpointer>(group_, saving, inputs_.agreed, *model_, *optimizer_, progress_, output.requests);
  announce(output);  // into the log of a folder that is this run's by now
}

/// On rank 0, whose parameters the others get.
std::string Run::load_weights() {
  std::string kept;
  for (const std::string& name : load_parameters(*model_, options_.weights, true))
    kept += (kept.empty() ? "; of other classes, so drawn by --seed: " : ", ") + name;
  return "weights of " + options_.weights.string() + kept;
}

/// Collective. An elastic run's is the one that it has already, if it does; its batch norm joins these ranks from now
/// on.
void Run::make_model() {
  TrainingState* const state = elastic_ != nullptr ? &elastic_->state : nullptr;
  const bool is_new = state == nullptr || !state->model;
  model_ = is_new ? make_task_model(options_, inputs_.data->train) : state->model;
  if (!options_.weights.empty())
    weights_note_ = on_rank0(group_, [&] { return is_new ? load_weights() : std::string(); });
  prepare_model(options_, *model_, group_, inputs_.global_batch);
  if (is_new) {
    if (options_.tf32 || options_.bf16)
      tensor::set_float32_products(options_.bf16 ? tensor::Float32Products::Bf16 : tensor::Float32Products::Tf32);
    model_->to(tensor::parse_device(options_.device));
    optimizer_ = make_update_rule(options_, *model_, steps_per_epoch_, group_);
    if (state == nullptr) return;
    state->data = inputs_.data;
    state->model = model_;
    state->optimizer = optimizer_;
    if (elastic_->prepared) elastic_->prepared(*state);
  }
  model_ = state->model;
  optimizer_ = state->optimizer;
}

void Run::announce(const TrainOutput& output) {
  const auto cache_notes = all_gather_texts(group_, inputs_.data->cache_note);
  if (group_.rank() != 0) {
    progress_ = Progress(recorder_->log(), options_.epochs, data_note(report_), options_.log_every);
    return;
  }
  progress_ =
      Progress(output.stream, output.live, output.columns, options_.epochs, data_note(report_), options_.log_every);
  progress_.also_to(recorder_->log());
  if (elastic_ != nullptr && elastic_->generation > 0) return;  // it has been said
  progress_.line(opening_line(report_, options_, model_->parameter_count(), inputs_.data->train, inputs_.data->test));
  if (!weights_note_.empty()) progress_.line(weights_note_);
  for (const std::string& note : inputs_.data->notes) progress_.line(note);
  for (const std::string& note : parallel_notes(options_, *model_, *optimizer_, group_.world_size()))
    progress_.line(note);
  for (std::size_t rank = 0; rank < cache_notes.size(); ++rank) {
    if (!cache_notes[rank].empty()) progress_.line("rank " + std::to_string(rank) + ": " + cache_notes[rank]);
  }
}

/// From where survivors of another group are; false if there are none.
bool Run::continue_with_others() {
  TrainingState& state = elastic_->state;
  const Meeting meeting = meet(group_, state);
  const std::string who =
      "generation " + std::to_string(elastic_->generation) + ": " + std::to_string(group_.world_size()) + " ranks, ";
  if (!meeting.anybody) {
    if (elastic_->generation > 0) progress_.line(who + "all of them new");
    return false;
  }
  start_ = state.position;
  report_.epochs = state.epochs;
  seconds_before_ = state.seconds;
  samples_before_ = start_.step * inputs_.global_batch;
  epoch_sum_ = state.sum;
  progress_.line(who + meeting_text(meeting, state, steps_per_epoch_));
  return true;
}

/// This is how far an elastic run's rank is.
void Run::commit(const CheckpointPosition& position) {
  if (elastic_ == nullptr) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - epoch_start_;
  const bool within = position.step > 0;
  elastic_->state.commit(position, epoch_sum_, within ? seconds_before_ + seconds.count() : 0);
}

void Run::resume() {
  if (!options_.resume) return;
  const auto state = checkpointer_->resume();
  if (!state) {
    progress_.line("no checkpoint in " + options_.checkpoint_dir.string() + " yet: starting from the beginning");
    return;
  }
  start_ = state->position();
  if (start_.step > 0 && state->steps_per_epoch != steps_per_epoch_) {
    throw std::runtime_error("cannot resume from " + state->folder.string() + ": it counts " +
                             std::to_string(state->steps_per_epoch) + " steps an epoch, this run " +
                             std::to_string(steps_per_epoch_));
  }
  seconds_before_ = state->seconds;
  for (const LossSum& sum : state->sums) samples_before_ += sum.samples;
  if (start_.step > 0) epoch_sum_ = sum_of_rank(state->sums, group_.rank(), group_.world_size());
  report_.epochs = epochs_from_json(state->history);
  progress_.line(resumed_line(*state, group_.world_size()));
}

/// Returns false when the run was asked to end, and has.
bool Run::train_one_epoch(int epoch) {
  using Clock = std::chrono::steady_clock;
  const bool resumed = epoch == start_.epoch + 1 && start_.step > 0;
  const std::int64_t first_step = resumed ? start_.step : 0;
  if (!resumed) {
    epoch_sum_ = {};
    seconds_before_ = 0;
    samples_before_ = 0;
  }
  group_.barrier();
  epoch_start_ = Clock::now();
  inputs_.train_loader->begin_epoch(epoch - 1, first_step);
  Training training{*parallel_, *optimizer_, objective_, options_.label_smoothing, options_.micro_batch_size};
  training.ranks = group_.world_size();
  training.graphs = graphs_.get();
  training.empty_input = empty_input(options_, *model_, inputs_.data->train);
  training.before_exchange = [this, run_step = (epoch - 1) * steps_per_epoch_ + first_step]() mutable {
    chaos_.begin_step(group_.rank(), run_step++);
    checkpointer_->before_exchange();
    if (elastic_ != nullptr && elastic_->next_is_there.load()) parallel_->ask(Request::NextGeneration);
  };
  DeviceFeed feed(*inputs_.train_loader, device_of(*model_));
  EpochSteps steps{.feed = feed, .epoch = epoch, .first = first_step, .count = steps_per_epoch_};
  steps.global_samples = [this](std::int64_t step) {
    return inputs_.sampler->samples_of_step(step, options_.batch_size);
  };
  progress_.start_epoch(epoch, steps.count, inputs_.global_batch);
  train_epoch(
      training, steps, progress_, [this](const StepInfo& info) { return after_step(info); }, epoch_sum_);
  if (checkpointer_->stopped_at()) return false;
  parallel_->share_buffers();
  const LossSum sum = sum_over_ranks(group_, epoch_sum_);  // ends when all ranks have come here, as a barrier does
  const std::chrono::duration<double> seconds = Clock::now() - epoch_start_;

  EpochReport done;
  done.epoch = epoch;
  done.train_loss = sum.loss / static_cast<double>(sum.samples);
  done.seconds = seconds_before_ + seconds.count();
  report_.epochs.push_back(done);
  seconds_of_this_run_ += seconds.count();
  samples_of_this_run_ += static_cast<double>(sum.samples - samples_before_);
  return true;
}

bool Run::after_step(const StepInfo& info) {
  commit({.epoch = info.epoch - 1, .step = info.step + 1});
  recorder_->step(info);
  const bool goes_on = checkpointer_->after_step(info, [this] {
    recorder_->flush();  // a run that goes on from this checkpoint misses no record
    return epoch_so_far();
  });
  if (goes_on && info.generation_asked) {
    group_.shutdown();  // when all have done the step
    throw GenerationOver();
  }
  return goes_on;
}

EpochSoFar Run::epoch_so_far() const {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - epoch_start_;
  return {.history = epochs_to_json(report_.epochs), .sum = epoch_sum_, .seconds = seconds_before_ + seconds.count()};
}

Evaluation Run::evaluate_epoch() {
  Evaluation result = evaluate(group_, *model_, objective_, *inputs_.test_loader, &progress_);
  EpochReport& epoch = report_.epochs.back();
  epoch.test_loss = result.loss;
  if (objective_ == Objective::Classify) epoch.test_accuracy = result.confusion.accuracy();
  if (inputs_.train_evaluation_loader)
    epoch.train_accuracy =
        evaluate(group_, *model_, objective_, *inputs_.train_evaluation_loader, &progress_).confusion.accuracy();
  return result;
}

void Run::finish(const Evaluation& last) {
  for (const EpochReport& epoch : report_.epochs) report_.seconds_training += epoch.seconds;
  if (seconds_of_this_run_ > 0) report_.samples_per_second = samples_of_this_run_ / seconds_of_this_run_;
  report_.parameter_sha256 = agreed_parameter_sha256(group_, *model_);
  if (objective_ == Objective::Classify) {
    report_.final_test_accuracy = last.confusion.accuracy();
    report_.confusion_matrix = last.confusion.rows();
  }
  progress_.line(summary(report_, last, columns_));
  if (group_.rank() == 0 && !options_.json.empty()) replace_file(options_.json, to_json(report_));
}

void Run::stop(int epoch) {
  checkpointer_->finish();
  progress_.line(stopped_line(*checkpointer_->stopped_at(), epoch, steps_per_epoch_));
  report_.stopped = true;
}

RunReport Run::execute(const TrainOutput& output) {
  set_up(output);
  const bool continued = elastic_ != nullptr && continue_with_others();
  if (!continued) resume();
  if (start_ > CheckpointPosition{.epoch = options_.epochs}) {
    throw std::runtime_error("the checkpoint is of epoch " + std::to_string(start_.epoch + (start_.step > 0 ? 1 : 0)) +
                             ", --epochs " + std::to_string(options_.epochs) + " lies before it; ask for more epochs");
  }
  DataParallelOptions parallel = data_parallel_options(options_, *model_, group_.world_size());
  parallel.share_parameters = !continued;
  parallel_ = std::make_unique<DataParallel>(model_, group_, parallel);
  graphs_ = std::make_unique<StepGraphs>(*parallel_, objective_, options_.label_smoothing);
  if (elastic_ != nullptr) elastic_->state.commit(start_, epoch_sum_, seconds_before_);
  recorder_->start(start_.epoch * steps_per_epoch_ + start_.step);
  checkpointer_->start(*parallel_);
  std::optional<Evaluation> last;
  for (int epoch = start_.epoch + 1; epoch <= options_.epochs; ++epoch) {
    if (!train_one_epoch(epoch)) {
      stop(epoch);
      return report_;
    }
    last = evaluate_epoch();
    recorder_->epoch(report_.epochs.back(), parallel_->bucket_timings());
    checkpointer_->end_epoch(epoch, steps_per_epoch_, epochs_to_json(report_.epochs));
    if (elastic_ != nullptr) elastic_->state.epochs = report_.epochs;
    commit({.epoch = epoch});
    progress_.end_epoch(report_.epochs.back());
  }
  checkpointer_->finish();
  finish(last ? *last : evaluate_epoch());
  return report_;
}

/// If another rank has told one to the group of all ranks: a layer's group, or a bucket's, knows less.
void throw_first_cause(comm::ProcessGroup& failed) {
  try {
    failed.barrier();
  } catch (const comm::Error& first) {
    if (first.code() == comm::ErrorCode::Aborted) throw;
  }
}

}  // namespace

RunReport train(const TrainOptions& options, comm::ProcessGroup& group, int threads, const TrainOutput& output,
                const ElasticRun* elastic) {
  Run run(options, group, threads, elastic);
  try {
    return run.execute(output);
  } catch (const std::exception& error) {
    group.abort(error.what());  // before the layers' sub-groups end, for a reason that says less
    if (dynamic_cast<const comm::Error*>(&error) != nullptr) throw_first_cause(group);
    throw;
  }
}

}  // namespace tutti::trainer
