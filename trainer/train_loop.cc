#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/data_parallel/reproducible_exchange.h>
#include <tutti/trainer/evaluate.h>
#include <tutti/trainer/parallel_options.h>
#include <tutti/trainer/report/run_recorder.h>
#include <tutti/trainer/report/summary.h>
#include <tutti/trainer/task.h>
#include <tutti/trainer/tensor_comm.h>
#include <tutti/trainer/train_loop.h>
#include <tutti/trainer/train_step.h>
#include <tutti/trainer/update_rule.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace tutti::trainer {
namespace {

std::unique_ptr<Loader> make_loader(const TrainOptions& options, const ImageDataset& data,
                                    std::shared_ptr<const Sampler> sampler, Split split) {
  LoaderOptions loading;
  loading.batch_size = split == Split::Train ? options.batch_size : evaluation_batch_of(options);
  loading.threads = options.workers;
  loading.normalisation = normalisation_of(options);
  if (split == Split::Train) loading.augmentation = augmentation_of(options);
  loading.seed = options.seed;
  return std::make_unique<Loader>(data, std::move(sampler), loading);
}

/// Every rank was started with the same options and found the same data; else all throw the same sentence.
void check_same_options(comm::ProcessGroup& group, const std::map<std::string, std::string>& options) {
  std::string mine;
  for (const auto& [key, value] : options) mine += key + " " + value + "\n";
  const auto all = all_gather_texts(group, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw std::runtime_error("rank " + std::to_string(rank) + " was started with other options or data than rank 0: " +
                             first_differing_lines(all[0], all[rank]));
  }
}

std::shared_ptr<const DistributedSampler> make_train_sampler(const TrainOptions& options, std::int64_t samples,
                                                             const comm::ProcessGroup& group) {
  SamplerOptions sampling{.count = samples, .replicas = group.world_size(), .rank = group.rank()};
  sampling.seed = options.seed;
  sampling.drop_last = options.drop_last;
  sampling.padding = options.padding;
  if (options.reproducible && (options.padding || options.drop_last)) sampling.multiple = kReproducibleShards;
  return std::make_shared<DistributedSampler>(sampling);
}

void check_reproducible(const nn::Module& model, const std::string& name, int ranks) {
  if (kReproducibleShards % ranks != 0) {
    throw UsageError("--reproducible works with 1, 2, 3, 4, 6 or 12 ranks, not with " + std::to_string(ranks));
  }
  if (!model.named_buffers().empty()) {
    throw UsageError("--reproducible: " + name +
                     " has batch norm, whose running statistics depend on how samples are dealt to ranks; use a model "
                     "without it (mlp, autoencoder, cnn, lenet5, simple_net)");
  }
}

class Run {
 public:
  Run(const TrainOptions& options, comm::ProcessGroup& group, int threads, const TrainOutput& output);
  RunReport execute();

 private:
  void resume();
  std::int64_t steps_per_epoch() const;
  int passes_of_a_step() const { return options_.reproducible ? kReproducibleShards / group_.world_size() : 1; }
  void make_parallel();
  bool train_one_epoch(int epoch);
  bool after_step(const StepInfo& info);
  EpochSoFar epoch_so_far() const;
  Evaluation evaluate_epoch();
  void finish(const Evaluation& last);
  void stop(int epoch);

  const TrainOptions& options_;
  comm::ProcessGroup& group_;
  TaskData data_;
  Objective objective_;
  std::map<std::string, std::string> agreed_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  std::shared_ptr<const DistributedSampler> sampler_;
  std::unique_ptr<Loader> train_loader_;
  std::unique_ptr<Loader> test_loader_;
  std::unique_ptr<DataParallel> parallel_;
  std::unique_ptr<RunRecorder> recorder_;
  Progress progress_;
  std::unique_ptr<Checkpointer> checkpointer_;
  RunReport report_;
  CheckpointPosition start_;         // where this run begins
  std::vector<LossSum> epoch_sums_;  // of the epoch under way, by pass
  double seconds_before_ = 0;        // that the epoch under way took before this run
  std::int64_t samples_before_ = 0;  // of all ranks, likewise
  std::chrono::steady_clock::time_point epoch_start_;
  double seconds_of_this_run_ = 0;
  double samples_of_this_run_ = 0;
};

Run::Run(const TrainOptions& options, comm::ProcessGroup& group, int threads, const TrainOutput& output)
    : options_(options),
      group_(group),
      data_(load_task_data(options, threads)),
      objective_(objective_of(options.model)) {
  const int ranks = group.world_size();
  agreed_ = options_that_must_agree(options, ranks, data_identity(data_.train));
  check_same_options(group, agreed_);
  recorder_ =
      std::make_unique<RunRecorder>(RecorderOptions{.run_dir = options.run_dir,
                                                    .rank = group.rank(),
                                                    .world_size = ranks,
                                                    .options = run_option_texts(options, agreed_, ranks, threads)});
  model_ = make_task_model(options, data_.train);
  sampler_ = make_train_sampler(options, data_.train.count(), group);
  train_loader_ = make_loader(options, data_.train, sampler_, Split::Train);
  prepare_model(options, *model_, group);
  optimizer_ = make_update_rule(options, *model_, steps_per_epoch(), group);
  test_loader_ = make_loader(options, data_.test,
                             std::make_shared<EvaluationSampler>(data_.test.count(), ranks, group.rank()), Split::Test);
  report_.task = options.task;
  report_.model = options.model;
  report_.device = options.device;
  report_.world_size = ranks;
  report_.threads = threads;
  report_.batch_size = options.batch_size;
  report_.global_batch = options.batch_size * ranks;
  report_.generated_data = data_.train.generated;
  report_.has_classes = objective_ == Objective::Classify;
  report_.class_names = data_.train.class_names;
  const auto cache_notes = all_gather_texts(group, data_.cache_note);
  if (group.rank() == 0) {
    progress_ = Progress(output.stream, output.live, options.epochs, data_note(report_));
    progress_.also_to(recorder_->log());
    progress_.line(opening_line(report_, options, model_->parameter_count(), data_.train, data_.test));
    for (const std::string& note : data_.notes) progress_.line(note);
    for (const std::string& note : parallel_notes(options, *optimizer_, *model_, ranks)) progress_.line(note);
    for (std::size_t rank = 0; rank < cache_notes.size(); ++rank) {
      if (!cache_notes[rank].empty()) progress_.line("rank " + std::to_string(rank) + ": " + cache_notes[rank]);
    }
  }
  const CheckpointerOptions saving{
      .dir = options.checkpoint_dir, .every = options.checkpoint_every, .keep = options.keep_checkpoints};
  checkpointer_ =
      std::make_unique<Checkpointer>(group, saving, agreed_, *model_, *optimizer_, progress_, output.requests);
}

void Run::resume() {
  if (!options_.resume) return;
  const auto state = checkpointer_->resume();
  if (!state) {
    progress_.line("no checkpoint in " + options_.checkpoint_dir.string() + " yet: starting from the beginning");
    return;
  }
  start_ = state->position();
  if (start_.step > 0 && state->steps_per_epoch != steps_per_epoch()) {
    throw std::runtime_error("cannot resume from " + state->folder.string() + ": it counts " +
                             std::to_string(state->steps_per_epoch) + " steps an epoch, this run " +
                             std::to_string(steps_per_epoch()));
  }
  seconds_before_ = state->seconds;
  for (const LossSum& sum : state->sums) samples_before_ += sum.samples;
  if (start_.step > 0) epoch_sums_ = sums_of_rank(state->sums, group_.rank(), group_.world_size(), passes_of_a_step());
  report_.epochs = epochs_from_json(state->history);
  std::string text = "resumed after epoch " + std::to_string(start_.epoch);
  if (start_.step > 0) {
    text += " and step " + std::to_string(start_.step) + " of " + std::to_string(state->steps_per_epoch);
  }
  text += " from " + state->folder.string();
  if (state->world_size != group_.world_size()) {
    text += "; that run had " + std::to_string(state->world_size) + " ranks, this one has " +
            std::to_string(group_.world_size()) + ", the global batch is the same";
  }
  progress_.line(text);
}

/// Of the rank that has the most, which is rank 0.
std::int64_t Run::steps_per_epoch() const {
  return (sampler_->size_of(0) + options_.batch_size - 1) / options_.batch_size;
}

/// Returns false when the run was asked to end, and has.
bool Run::train_one_epoch(int epoch) {
  using Clock = std::chrono::steady_clock;
  const bool resumed = epoch == start_.epoch + 1 && start_.step > 0;
  const std::int64_t first_step = resumed ? start_.step : 0;
  if (!resumed) {
    epoch_sums_.assign(static_cast<std::size_t>(passes_of_a_step()), LossSum{});
    seconds_before_ = 0;
    samples_before_ = 0;
  }
  group_.barrier();
  epoch_start_ = Clock::now();
  train_loader_->begin_epoch(epoch - 1, first_step);
  Training training{*parallel_, *optimizer_, objective_, options_.label_smoothing, passes_of_a_step()};
  training.empty_input = empty_input(options_, data_.train);
  training.before_exchange = [this] { checkpointer_->before_exchange(); };
  EpochSteps steps{.loader = *train_loader_, .epoch = epoch, .first = first_step, .count = steps_per_epoch()};
  steps.global_samples = [this](std::int64_t step) { return sampler_->samples_of_step(step, options_.batch_size); };
  progress_.start_epoch(epoch, steps.count);
  train_epoch(
      training, steps, progress_, [this](const StepInfo& info) { return after_step(info); }, epoch_sums_);
  if (checkpointer_->stopped_at()) return false;
  parallel_->share_buffers();
  const LossSum sum = sum_over_ranks(group_, epoch_sums_);  // ends when all ranks have come here, as a barrier does
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
  recorder_->step(info);
  return checkpointer_->after_step(info, [this] {
    recorder_->flush();  // a run that goes on from this checkpoint misses no record
    return epoch_so_far();
  });
}

EpochSoFar Run::epoch_so_far() const {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - epoch_start_;
  return {.history = epochs_to_json(report_.epochs), .sums = epoch_sums_, .seconds = seconds_before_ + seconds.count()};
}

Evaluation Run::evaluate_epoch() {
  Evaluation result = evaluate(group_, *model_, objective_, *test_loader_);
  EpochReport& epoch = report_.epochs.back();
  epoch.test_loss = result.loss;
  if (objective_ == Objective::Classify) epoch.test_accuracy = result.confusion.accuracy();
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
  progress_.line(summary(report_, last));
  if (group_.rank() == 0 && !options_.json.empty()) replace_file(options_.json, to_json(report_));
}

void Run::stop(int epoch) {
  checkpointer_->finish();
  const std::filesystem::path folder = *checkpointer_->stopped_at();
  const auto position = checkpoint_position(folder.filename().string());
  progress_.line("stopped as asked, in epoch " + std::to_string(epoch) + " after step " +
                 std::to_string(position->step) + " of " + std::to_string(steps_per_epoch()) + "; " + folder.string() +
                 " is complete: go on from there with --resume");
  report_.stopped = true;
}

void Run::make_parallel() {
  DataParallelOptions options;
  options.buckets = options_.buckets;
  options.exchange = make_exchange(options_, group_.world_size());
  if (options_.reproducible) {
    check_reproducible(*model_, options_.model, group_.world_size());
    options.exchange = make_reproducible_exchange;
    options.passes = passes_of_a_step();
  }
  parallel_ = std::make_unique<DataParallel>(model_, group_, options);
}

RunReport Run::execute() {
  resume();
  if (start_ > CheckpointPosition{.epoch = options_.epochs}) {
    throw std::runtime_error("the checkpoint is of epoch " + std::to_string(start_.epoch + (start_.step > 0 ? 1 : 0)) +
                             ", --epochs " + std::to_string(options_.epochs) + " lies before it; ask for more epochs");
  }
  make_parallel();
  recorder_->start(start_.epoch * steps_per_epoch() + start_.step);
  checkpointer_->start(*parallel_);
  std::optional<Evaluation> last;
  for (int epoch = start_.epoch + 1; epoch <= options_.epochs; ++epoch) {
    if (!train_one_epoch(epoch)) {
      stop(epoch);
      return report_;
    }
    last = evaluate_epoch();
    recorder_->epoch(report_.epochs.back(), parallel_->bucket_timings());
    checkpointer_->end_epoch(epoch, steps_per_epoch(), epochs_to_json(report_.epochs));
    progress_.end_epoch(report_.epochs.back());
  }
  checkpointer_->finish();
  finish(last ? *last : evaluate_epoch());
  return report_;
}

}  // namespace

RunReport train(const TrainOptions& options, comm::ProcessGroup& group, int threads, const TrainOutput& output) {
  return Run(options, group, threads, output).execute();
}

}  // namespace tutti::trainer
