#include <tutti/nn/sample_keys.h>
#include <tutti/trainer/pipeline/pipeline.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti::trainer {
namespace {

using tensor::Tensor;
using tensor::Variable;

std::string options_text(const PipelineOptions& options) {
  return std::to_string(options.micro_batches) + " micro-batches in the order " + std::string(name(options.schedule));
}

}  // namespace

/// What a step holds until its backward passes are done.
struct Pipeline::Step {
  const PipelineBatch& batch;
  int micro_batches;
  std::vector<Variable> ends{};       // by micro-batch: the loss, or what was sent on
  std::vector<bool> owes_gradient{};  // by micro-batch: the stage before waits for one
  double loss = 0;

  std::int64_t first(int i) const { return batch.samples * i / micro_batches; }
  std::int64_t count(int i) const { return first(i + 1) - first(i); }
  double share(int i) const { return static_cast<double>(count(i)) / static_cast<double>(batch.samples); }
};

Pipeline::Pipeline(std::shared_ptr<nn::Module> stage, comm::ProcessGroup& group, const PipelineOptions& options)
    : Pipeline(stage, *stage, nullptr, group, options) {}

Pipeline::Pipeline(DataParallel& stage, comm::ProcessGroup& group, const PipelineOptions& options)
    : Pipeline(nullptr, stage.model(), &stage, group, options) {}

Pipeline::Pipeline(std::shared_ptr<nn::Module> owned, nn::Module& stage, DataParallel* parallel,
                   comm::ProcessGroup& group, const PipelineOptions& options)
    : owned_(std::move(owned)), stage_(stage), parallel_(parallel), group_(group), options_(options), courier_(group) {
  check_options();
}

void Pipeline::check_options() {
  if (options_.micro_batches < 1) {
    throw std::invalid_argument("Pipeline: micro_batches is " + std::to_string(options_.micro_batches) +
                                ", expected at least 1");
  }
  const std::vector<PipelineOptions> all = all_gather_values(group_, options_);
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i] == all[0]) continue;
    throw std::runtime_error("the stages of a pipeline were given different options: stage 0 " + options_text(all[0]) +
                             ", stage " + std::to_string(i) + " " + options_text(all[i]));
  }
}

/// A step, whose failure on this rank becomes all ranks'.
std::optional<double> Pipeline::guarded(const PipelineBatch& batch, const std::function<void(Step&)>& body) {
  try {
    const auto micro_batches =
        static_cast<int>(std::min<std::int64_t>(options_.micro_batches, std::max<std::int64_t>(batch.samples, 0)));
    Step step{batch, micro_batches};
    step.ends.resize(static_cast<std::size_t>(micro_batches));
    step.owes_gradient.resize(static_cast<std::size_t>(micro_batches));
    body(step);
    courier_.flush();
    if (!is_last()) return std::nullopt;
    return step.loss;
  } catch (const std::exception& error) {
    group_.abort("stage " + std::to_string(group_.rank()) + " of the pipeline: " + error.what());
    throw;
  }
}

std::optional<double> Pipeline::run(const PipelineBatch& batch) {
  return guarded(batch, [this](Step& step) {
    if (step.micro_batches == 0 && parallel_ != nullptr) parallel_->backward_nothing();
    for (const PipelineAction& action :
         plan_pipeline(options_.schedule, group_.rank(), group_.world_size(), step.micro_batches)) {
      action.kind == PipelineAction::Kind::Forward ? forward(step, action.micro_batch)
                                                   : backward(step, action.micro_batch);
    }
  });
}

std::optional<double> Pipeline::evaluate(const PipelineBatch& batch) {
  const tensor::NoGrad off;
  return guarded(batch, [this](Step& step) {
    for (int i = 0; i < step.micro_batches; ++i) {
      forward(step, i);
      step.ends[static_cast<std::size_t>(i)] = {};
    }
  });
}

Variable Pipeline::receive_activation(const Step& step, int micro_batch) {
  Variable x = courier_.receive(group_.rank() - 1);
  const std::int64_t expected = step.count(micro_batch);
  if (x.data().rank() == 0 || x.shape()[0] != expected) {
    throw std::runtime_error("micro-batch " + std::to_string(micro_batch) + " arrived from stage " +
                             std::to_string(group_.rank() - 1) + " with shape " + x.shape().to_string() +
                             ", this stage expects " + std::to_string(expected) +
                             " samples in its first axis; every stage must give the same number of samples");
  }
  return x;
}

void Pipeline::forward(Step& step, int micro_batch) {
  const auto i = static_cast<std::size_t>(micro_batch);
  const std::int64_t first = step.first(micro_batch);
  const std::int64_t count = step.count(micro_batch);
  const Variable x = is_first() ? step.batch.input(first, count) : receive_activation(step, micro_batch);
  step.owes_gradient[i] = !is_first() && x.requires_grad();

  std::optional<nn::SampleKeys> keys;
  if (step.batch.keys.defined()) keys.emplace(step.batch.keys.narrow(0, first, count));
  const Variable y = parallel_ != nullptr ? parallel_->forward(x) : stage_.forward(x);
  if (!is_last()) {
    step.ends[i] = courier_.send(y, group_.rank() + 1);
    return;
  }
  step.ends[i] = step.batch.loss(y, first, count);
  step.loss += step.ends[i].data().item() * step.share(micro_batch);
}

void Pipeline::backward(Step& step, int micro_batch) {
  const auto i = static_cast<std::size_t>(micro_batch);
  const Variable end = std::exchange(step.ends[i], {});  // the record goes when its backward is done
  if (!end.requires_grad()) return;
  // The last stage's seed makes the sum over micro-batches a mean over samples; it is in what the other stages receive.
  const double seed = is_last() ? step.batch.share * step.share(micro_batch) : 1.0;
  const std::int64_t posted = courier_.gradients_posted();
  if (parallel_ == nullptr) {
    Variable(end).backward(Tensor::full(end.shape(), seed, end.data().dtype(), end.data().device()));
  } else if (micro_batch + 1 < step.micro_batches) {
    const DataParallel::NoSync more_to_come = parallel_->no_sync();
    parallel_->backward(end, seed);
  } else {
    parallel_->backward(end, seed);
  }
  if (step.owes_gradient[i] && courier_.gradients_posted() == posted) {
    throw std::logic_error("the output of this stage (" + stage_.describe() +
                           ") does not depend on its input, so that the stage before would wait for a gradient");
  }
}

std::string_view name(PipelineSchedule schedule) { return schedule == PipelineSchedule::GPipe ? "gpipe" : "1f1b"; }

std::vector<PipelineAction> plan_pipeline(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  if (stage < 0 || stage >= stages || micro_batches < 0) {
    throw std::invalid_argument("plan_pipeline: stage " + std::to_string(stage) + " of " + std::to_string(stages) +
                                " with " + std::to_string(micro_batches) +
                                " micro-batches; expected a stage from 0 to below the number of stages, and no "
                                "negative number of micro-batches");
  }
  using Kind = PipelineAction::Kind;
  // How many forwards run ahead of the first backward: the stages behind need that many to be kept busy.
  const int ahead = schedule == PipelineSchedule::GPipe ? micro_batches : std::min(stages - 1 - stage, micro_batches);
  std::vector<PipelineAction> actions;
  for (int i = 0; i < ahead; ++i) actions.push_back({Kind::Forward, i});
  for (int i = ahead; i < micro_batches; ++i) {
    actions.push_back({Kind::Forward, i});
    actions.push_back({Kind::Backward, i - ahead});
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) actions.push_back({Kind::Backward, i});
  return actions;
}

}  // namespace tutti::trainer
