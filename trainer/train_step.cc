#include <tutti/nn/sample_keys.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/ops.h>
#include <tutti/trainer/data/sampler.h>
#include <tutti/trainer/tensor_comm.h>
#include <tutti/trainer/train_step.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

namespace tutti::trainer {
namespace {

void run_without_samples(const Training& training) {
  if (!training.empty_input.defined()) return training.parallel.backward_nothing();
  const nn::SampleKeys keys(tensor::Tensor::empty({0}, tensor::DType::Int64));
  training.parallel.backward(sum(training.parallel.forward(tensor::Variable(training.empty_input))), 0);
}

/// Forward and backward; returns the loss as loss_of() does.
tensor::Tensor run_whole(const Training& training, const Batch& batch, double share) {
  if (training.graphs != nullptr) {
    if (const auto loss = training.graphs->run(batch, share)) return *loss;
  }
  const nn::SampleKeys keys(batch.keys);  // dropout draws for the sample, on whichever rank it is
  const tensor::Variable output = training.parallel.forward(tensor::Variable(batch.x));
  const tensor::Variable loss = loss_of(training.objective, output, batch, training.label_smoothing);
  training.parallel.backward(loss, share);
  return loss.data();
}

/// Samples first, first + 1, ... of a batch, in its memory.
Batch part_of(const Batch& batch, std::int64_t first, std::int64_t count) {
  return {.x = batch.x.narrow(0, first, count),
          .y = batch.y.narrow(0, first, count),
          .keys = batch.keys.narrow(0, first, count),
          .count = count,
          .number = batch.number};
}

/// The same in so many parts, whose gradients add up; they leave with those of the last one.
tensor::Tensor run_in_parts(Training training, const Batch& batch, double share, std::int64_t parts) {
  training.graphs = nullptr;  // a graph begins an exchange
  tensor::Tensor total;
  for (std::int64_t p = 0; p < parts; ++p) {
    std::optional<DataParallel::NoSync> quiet;
    if (p + 1 < parts) quiet.emplace(training.parallel);
    const std::int64_t first = std::min(p * training.micro_batch, batch.count);
    const std::int64_t count = std::min(training.micro_batch, batch.count - first);
    if (count == 0) {
      run_without_samples(training);
      continue;
    }
    const tensor::Tensor loss = run_whole(training, part_of(batch, first, count), share);
    if (!total.defined()) {
      total = loss;
    } else {
      tensor::kernels(total.device()).add(total, total, loss);
    }
  }
  return total;
}

/// Into how many parts micro-batches cut a step: where the model is collective as many on all ranks.
std::int64_t parts_of(const Training& training, const Batch& batch, std::int64_t global_samples) {
  if (training.micro_batch == 0) return 1;
  const std::int64_t most = training.empty_input.defined() ? dealt(global_samples, 0, training.ranks) : batch.count;
  return std::max<std::int64_t>(1, (most + training.micro_batch - 1) / training.micro_batch);
}

/// Returns the loss as loss_of() does, undefined for an empty batch. The seed of backward is the same on every rank,
/// so that what a sample contributes does not depend on how many samples its rank has.
tensor::Tensor run_batch(const Training& training, const Batch& batch, std::int64_t global_samples) {
  const std::int64_t parts = parts_of(training, batch, global_samples);
  if (batch.count == 0 && parts == 1) {
    run_without_samples(training);
    return {};
  }
  const std::int64_t terms = batch.count == 0 ? 1 : loss_terms(training.objective, batch);
  const double share = 1.0 / static_cast<double>(global_samples * terms);
  return parts == 1 ? run_whole(training, batch, share) : run_in_parts(training, batch, share, parts);
}

}  // namespace

double train_step(const Training& training, DeviceFeed& feed, const Batch& batch, std::int64_t global_samples,
                  LossSum& sum) {
  training.optimizer.zero_grad();
  const tensor::Tensor loss = run_batch(training, batch, global_samples);
  feed.prefetch();
  if (training.before_exchange) training.before_exchange();
  training.parallel.finish();
  training.optimizer.step();
  if (batch.count == 0) return 0;
  // Only now: a GPU is waited for once, when all its work is given.
  const double total = loss.item() / static_cast<double>(loss_terms(training.objective, batch));
  sum.loss += total;
  sum.samples += batch.count;
  return total / static_cast<double>(batch.count);
}

void train_epoch(const Training& training, const EpochSteps& steps, Progress& progress, const AfterStep& after_step,
                 LossSum& sum) {
  using Clock = std::chrono::steady_clock;
  StepInfo info{.epoch = steps.epoch, .steps_per_epoch = steps.count};
  Batch batch;
  auto start = Clock::now();
  for (info.step = steps.first; info.step < steps.count; ++info.step) {
    steps.feed.next(batch);  // leaves an empty one when this rank has no samples any more
    info.loss = train_step(training, steps.feed, batch, steps.global_samples(info.step), sum);
    progress.step(info.step, info.loss);
    const auto end = Clock::now();
    info.seconds = std::chrono::duration<double>(end - start).count();
    start = end;
    info.samples = batch.count;
    info.learning_rate = training.optimizer.learning_rate();  // a schedule has set it in the step
    info.global_step = (steps.epoch - 1) * steps.count + info.step;
    info.wait_seconds = training.parallel.last_wait_seconds();
    info.checkpoint_asked = training.parallel.asked(Request::Checkpoint) > 0;
    info.stop_asked = training.parallel.asked(Request::Stop) > 0;
    info.generation_asked = training.parallel.asked(Request::NextGeneration) > 0;
    if (!after_step(info)) break;
  }
}

LossSum sum_over_ranks(comm::ProcessGroup& group, const LossSum& mine) {
  LossSum total;
  for (const LossSum& sum : all_gather_values(group, mine)) {
    total.loss += sum.loss;
    total.samples += sum.samples;
  }
  return total;
}

}  // namespace tutti::trainer
