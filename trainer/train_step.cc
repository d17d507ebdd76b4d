#include <tutti/nn/sample_keys.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/trainer/train_step.h>

#include <chrono>
#include <cstring>

namespace tutti::trainer {
namespace {

/// Rows first, first + stride, ... of a contiguous tensor.
tensor::Tensor every_nth_row(const tensor::Tensor& from, std::int64_t first, std::int64_t stride) {
  const std::int64_t rows = from.shape()[0];
  const std::int64_t taken = rows > first ? (rows - first + stride - 1) / stride : 0;
  std::vector<std::int64_t> extents(from.shape().extents().begin(), from.shape().extents().end());
  extents.front() = taken;
  auto result = tensor::Tensor::empty(tensor::Shape(extents), from.dtype());
  if (taken == 0) return result;
  const std::size_t bytes = from.nbytes() / static_cast<std::size_t>(rows);
  for (std::int64_t i = 0; i < taken; ++i) {
    std::memcpy(static_cast<std::byte*>(result.raw()) + static_cast<std::size_t>(i) * bytes,
                static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(first + i * stride) * bytes,
                bytes);
  }
  return result;
}

Batch part_of(const Batch& batch, int pass, int passes) {
  if (passes == 1 || batch.count == 0) return batch;
  Batch part;
  part.x = every_nth_row(batch.x, pass, passes);
  part.y = every_nth_row(batch.y, pass, passes);
  part.keys = every_nth_row(batch.keys, pass, passes);
  part.count = part.y.shape()[0];
  part.number = batch.number;
  return part;
}

void run_without_samples(const Training& training) {
  if (!training.empty_input.defined()) return training.parallel.backward_nothing();
  const nn::SampleKeys keys(tensor::Tensor::empty({0}, tensor::DType::Int64));
  training.parallel.backward(sum(training.parallel.forward(tensor::Variable(training.empty_input))), 0);
}

/// Returns the mean loss over the part, undefined for an empty one.
tensor::Tensor run_pass(const Training& training, const Batch& part, std::int64_t global_samples) {
  if (part.count == 0) {
    run_without_samples(training);
    return {};
  }
  const double share = static_cast<double>(part.count) / static_cast<double>(global_samples);
  if (training.graphs != nullptr) {
    if (const auto loss = training.graphs->run(part, share)) return *loss;
  }
  const nn::SampleKeys keys(part.keys);  // dropout draws for the sample, on whichever rank it is
  const tensor::Variable output = training.parallel.forward(tensor::Variable(part.x));
  const tensor::Variable loss = loss_of(training.objective, output, part, training.label_smoothing);
  training.parallel.backward(loss, share);
  return loss.data();
}

struct LossOfPass {
  tensor::Tensor mean;
  std::int64_t samples = 0;
};

double add_up(const std::vector<LossOfPass>& losses, std::vector<LossSum>& sums) {
  double total = 0;
  for (std::size_t pass = 0; pass < losses.size(); ++pass) {
    if (losses[pass].samples == 0) continue;
    const double loss = losses[pass].mean.item() * static_cast<double>(losses[pass].samples);
    sums[pass].loss += loss;
    sums[pass].samples += losses[pass].samples;
    total += loss;
  }
  return total;
}

}  // namespace

double train_step(const Training& training, const Batch& batch, std::int64_t global_samples,
                  std::vector<LossSum>& sums) {
  training.optimizer.zero_grad();
  std::vector<LossOfPass> losses;
  for (int pass = 0; pass < training.passes; ++pass) {
    const Batch part = part_of(batch, pass, training.passes);
    losses.push_back({run_pass(training, part, global_samples), part.count});
  }
  if (training.before_exchange) training.before_exchange();
  training.parallel.finish();
  training.optimizer.step();
  const double total = add_up(losses, sums);  // only now: a GPU is waited for once, when all its work is given
  return batch.count > 0 ? total / static_cast<double>(batch.count) : 0;
}

void train_epoch(const Training& training, const EpochSteps& steps, Progress& progress, const AfterStep& after_step,
                 std::vector<LossSum>& sums) {
  using Clock = std::chrono::steady_clock;
  StepInfo info{.epoch = steps.epoch, .steps_per_epoch = steps.count};
  Batch batch;
  auto start = Clock::now();
  for (info.step = steps.first; info.step < steps.count; ++info.step) {
    steps.feed.next(batch);  // leaves an empty one when this rank has no samples any more
    info.loss = train_step(training, batch, steps.global_samples(info.step), sums);
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

LossSum sum_over_ranks(comm::ProcessGroup& group, const std::vector<LossSum>& mine) {
  std::vector<double> part;
  for (const LossSum& sum : mine) part.insert(part.end(), {sum.loss, static_cast<double>(sum.samples)});
  std::vector<double> all(part.size() * static_cast<std::size_t>(group.world_size()));
  group.all_gather(std::span<const double>(part), std::span<double>(all));
  LossSum total;
  for (std::size_t pass = 0; pass < part.size(); pass += 2) {
    for (std::size_t at = pass; at < all.size(); at += part.size()) {
      total.loss += all[at];
      total.samples += static_cast<std::int64_t>(all[at + 1]);
    }
  }
  return total;
}

}  // namespace tutti::trainer
