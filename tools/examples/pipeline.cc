// A model cut into stages, one on each rank, through which micro-batches follow each other.
//
//   tutti run -n 4 build/release/bin/examples/pipeline
//   tutti run -n 4 build/release/bin/examples/pipeline --replicas 2     (two pipelines of two stages)
//
// Activations go to the next rank, their gradients come back (trainer/pipeline/). The losses are those of one rank,
// whatever the numbers of stages, replicas and micro-batches.
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tools/examples/example.h>
#include <tutti/tools/examples/toy.h>
#include <tutti/trainer/pipeline/pipeline.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

namespace {

using namespace tutti;
using tensor::Tensor;
using tensor::Variable;

struct Settings {
  std::int64_t steps = 50;
  std::int64_t samples = 128;  // of all replicas together, in each step
  std::int64_t replicas = 1;
  std::int64_t micro_batches = 8;
  std::int64_t gpipe = 0;
};

constexpr int kLayers = 4;
constexpr std::int64_t kInputs = 16, kHidden = 64, kClasses = 10;

/// Layers [begin, end) of the model; every rank draws all weights, so that they are those of the uncut model.
std::shared_ptr<nn::Module> layers(int begin, int end) {
  tensor::Mt19937 generator(0);
  std::vector<std::shared_ptr<nn::Module>> mine;
  for (int i = 0; i < kLayers; ++i) {
    auto layer =
        std::make_shared<nn::Linear>(i == 0 ? kInputs : kHidden, i + 1 == kLayers ? kClasses : kHidden, generator);
    if (i < begin || i >= end) continue;
    mine.push_back(std::move(layer));
    if (i + 1 < kLayers) mine.push_back(std::make_shared<nn::ReLU>());
  }
  return std::make_shared<nn::Sequential>(mine);
}

/// The class of a sample is the place of the largest of its first numbers.
Tensor labels_of(const Tensor& x) {
  Tensor labels = Tensor::empty({x.shape()[0]}, tensor::DType::Int64);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const float* row = x.data<float>() + i * kInputs;
    labels.data<std::int64_t>()[i] = std::max_element(row, row + kClasses) - row;
  }
  return labels;
}

void train(comm::ProcessGroup& world, const Settings& settings) {
  const int replicas = static_cast<int>(settings.replicas);
  if (replicas < 1 || world.world_size() % replicas != 0 || world.world_size() / replicas > kLayers) {
    throw std::invalid_argument(std::to_string(world.world_size()) + " ranks cannot be " + std::to_string(replicas) +
                                " pipelines of equally many stages, at most " + std::to_string(kLayers));
  }
  // Ranks 0, 1, ... of a replica are its stages. Each rank is in two groups: along its pipeline, and across the
  // pipelines with those that hold the same stage.
  const int stages = world.world_size() / replicas;
  const int replica = world.rank() / stages;
  const int stage = world.rank() % stages;
  const auto along = world.split(replica);
  const auto across = world.split(stage);

  const int begin = kLayers * stage / stages;
  const int end = kLayers * (stage + 1) / stages;
  const auto model = layers(begin, end);
  trainer::DataParallel parallel(model, *across);
  trainer::Pipeline pipeline(parallel, *along,
                             {.micro_batches = static_cast<int>(settings.micro_batches),
                              .schedule = settings.gpipe != 0 ? trainer::PipelineSchedule::GPipe
                                                              : trainer::PipelineSchedule::OneForwardOneBackward});
  const auto optimizer = nn::make_adam(examples::parameters_of(*model), {.learning_rate = 0.01});
  std::printf("rank %d: layers %d to %d, stage %d of %d in pipeline %d\n", world.rank(), begin, end - 1, stage, stages,
              replica);

  const std::int64_t first = settings.samples * replica / replicas;
  const std::int64_t count = settings.samples * (replica + 1) / replicas - first;
  const double share = static_cast<double>(count) / static_cast<double>(settings.samples);
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const Tensor x = examples::randn(step * settings.samples + first, {count, kInputs}, 1);
    const Tensor y = labels_of(x);
    optimizer->zero_grad();
    const auto loss =
        pipeline.run({.samples = count,
                      .input = [&](std::int64_t from, std::int64_t n) { return Variable(x.narrow(0, from, n)); },
                      .loss = [&](const Variable& output, std::int64_t from,
                                  std::int64_t n) { return tensor::cross_entropy(output, y.narrow(0, from, n)); },
                      .share = share});
    parallel.finish();
    optimizer->step();
    if (!loss) continue;  // the last stage alone knows it
    double over_replicas = *loss * share;
    across->all_reduce(std::span<double>(&over_replicas, 1));
    if (replica == 0 && (step + 1) % 10 == 0)
      std::printf("step %lld: loss %.4f\n", static_cast<long long>(step + 1), over_replicas);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  return examples::run(argc, argv,
                       {{"--steps", settings.steps, "of training"},
                        {"--samples", settings.samples, "of a step, over all pipelines"},
                        {"--replicas", settings.replicas, "pipelines side by side"},
                        {"--micro-batches", settings.micro_batches, "that a pipeline's samples are cut into"},
                        {"--gpipe", settings.gpipe, "1: all forwards before all backwards"}},
                       [&](comm::ProcessGroup& world) { train(world, settings); });
}
