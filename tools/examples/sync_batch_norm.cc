// Batch norm for small batches: statistics over the samples of all ranks instead of each rank's few. (programs.md,
// row 23)
//
//   tutti run -n 4 build/release/bin/examples/sync_batch_norm
//   tutti run -n 1 build/release/bin/examples/sync_batch_norm --samples 16     (the same numbers)
//
// Four ranks with four samples each: by itself a rank normalises with the mean and the variance of its four, and the
// model learns another function than one rank with all sixteen would. Synchronised it is the same function. In
// training: `tutti train mercer --model resnet18 --batch-size 4 --sync-batch-norm --nproc 4`.
#include <tutti/nn/batch_norm.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tools/examples/example.h>
#include <tutti/tools/examples/toy.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/sync_batch_norm.h>

#include <cstdio>
#include <span>

namespace {

using namespace tutti;
using tensor::Variable;

constexpr std::int64_t kChannels = 2;

void one_step(comm::ProcessGroup& group, std::int64_t samples, bool synchronised) {
  const auto layer = std::make_shared<nn::BatchNorm2d>(kChannels);
  if (synchronised) trainer::synchronise_batch_norm(*layer, group);  // every BatchNorm2d below, in a whole model
  trainer::DataParallel parallel(layer, group);

  const std::int64_t first = group.rank() * samples;
  const Variable x(examples::randn(first, {samples, 1, 1, kChannels}, 1));
  const tensor::Tensor y = examples::randn(first, {samples, 1, 1, kChannels}, 2);
  const Variable loss = tensor::mse_loss(parallel.forward(x), y);
  parallel.backward(loss, 1.0 / group.world_size());
  parallel.finish();  // the gradient is the mean over all ranks' samples, with or without synchronisation

  double mean_loss = loss.data().item();
  group.all_reduce(std::span<double>(&mean_loss, 1), comm::ReduceOp::Avg);
  const auto parameters = layer->named_parameters();
  const float* gradient = parameters[0].second.grad().data<float>();
  const float* mean = layer->named_buffers()[0].second.data<float>();
  if (group.rank() == 0) {
    std::printf("%s: loss %.4f, gradient of the weights %.4f %.4f, running mean %.4f %.4f\n",
                synchronised ? "synchronised" : "each rank by itself", mean_loss, gradient[0], gradient[1], mean[0],
                mean[1]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t samples = 4;
  return examples::run(argc, argv, {{"--samples", samples, "of each rank"}}, [&](comm::ProcessGroup& group) {
    one_step(group, samples, false);
    one_step(group, samples, true);
  });
}
