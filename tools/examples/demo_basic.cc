// One training step of a small model under data parallelism, and what happens in it; before it, if that is asked for,
// a checkpoint. (programs.md, rows 14 and 15)
//
//   tutti run -n 4 build/release/bin/examples/demo_basic
//   tutti run -n 4 build/release/bin/examples/demo_basic --save 1
//
// 1. Process group: the ranks find each other (examples::run).
// 2. Model sync: each rank has built other weights; DataParallel gives all of them rank 0's.
// 3. Reducer and buckets: gradients are written into buckets, blocks of memory that travel as one message.
// 4. Forward: a plain call of the model, on this rank's own samples.
// 5. Backward: a hook on each parameter counts its bucket's missing gradients down; a full bucket starts its all_reduce
//    while backward goes on. Afterwards every rank has the gradient of the mean over all ranks' samples.
// 6. Optimizer: the same update of the same weights on every rank, so that they stay equal without being sent.
//
// 4 ranks with 20 samples each do what one rank does with `--samples 80`: compare the last two lines.
#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tools/examples/example.h>
#include <tutti/tools/examples/toy.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/tensor_comm.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace tutti;
namespace fs = std::filesystem;

/// ToyModel, and a layer that forward leaves out: no gradient ever reaches it.
class ToyModelWithSpare : public examples::ToyModel {
 public:
  explicit ToyModelWithSpare(std::uint64_t seed) : ToyModel(seed) {
    tensor::Mt19937 generator(seed);
    register_module("spare", std::make_shared<nn::Linear>(10, 10, generator));
  }
};

/// Rank 0 saves the model, all ranks load it, and the file goes away when no rank needs it any more. It is safetensors:
/// PyTorch reads it, and no code is run by reading it. `tutti train --checkpoint-dir` does more (optimizer, position,
/// checksums): trainer/checkpoint/.
void save_and_load(comm::ProcessGroup& group, nn::Module& model) {
  // A name that no other run on this machine has; rank 0 chooses it and tells the others.
  const std::string own = "tutti-demo-" + std::to_string(::getpid()) + ".safetensors";
  const fs::path path = trainer::broadcast_text(group, (fs::temp_directory_path() / own).string(), 0);
  if (group.rank() == 0) {
    trainer::replace_file(path, trainer::encode_safetensors(trainer::model_tensors(model)));  // complete or absent
    std::printf("rank 0: saved %s\n", path.c_str());
  }
  group.barrier();  // no rank reads before the file is there
  const trainer::Safetensors saved = trainer::read_safetensors(path);
  trainer::assign_tensors(trainer::model_tensors(model), saved.tensors, path.string());
  std::printf("rank %d: loaded %zu tensors, sha256 %.16s\n", group.rank(), saved.tensors.size(),
              trainer::parameter_sha256(model).c_str());
  group.barrier();  // it stays until all ranks have read it
  if (group.rank() == 0) fs::remove(path);
}

void demo_basic(comm::ProcessGroup& group, std::int64_t samples, bool spare, bool save) {
  const auto seed = static_cast<std::uint64_t>(group.rank());
  std::shared_ptr<nn::Module> model;
  if (spare) {
    model = std::make_shared<ToyModelWithSpare>(seed);
  } else {
    model = std::make_shared<examples::ToyModel>(seed);
  }
  if (save) save_and_load(group, *model);
  // Without find_unused the layer that takes no part would be an error that names its parameters.
  trainer::DataParallel parallel(model, group, {.find_unused = spare});
  std::vector<tensor::Variable> parameters = examples::parameters_of(*model);
  const auto optimizer = nn::make_sgd(parameters, {.learning_rate = 0.001});
  if (group.rank() == 0) {
    std::printf("%lld parameters, whose gradients travel in %zu message(s)\n",
                static_cast<long long>(model->parameter_count()), parallel.buckets().size());
  }

  const std::int64_t first = group.rank() * samples;  // my part of all the samples there are
  const tensor::Tensor inputs = examples::randn(first, {samples, 10}, 1);
  const tensor::Tensor labels = examples::randn(first, {samples, 5}, 2);

  optimizer->zero_grad();
  const tensor::Variable output = parallel.forward(tensor::Variable(inputs));
  const tensor::Variable loss = tensor::mse_loss(output, labels);
  parallel.backward(loss, 1.0 / group.world_size());  // this rank's share of all samples
  parallel.finish();                                  // the gradients are the mean over all samples now
  const double length = std::sqrt(nn::sum_of_squared_gradients(parameters));
  optimizer->step();

  double mean_loss = loss.data().item();
  std::printf("rank %d: loss %.4f on samples %lld to %lld\n", group.rank(), mean_loss, static_cast<long long>(first),
              static_cast<long long>(first + samples - 1));
  group.all_reduce(std::span<double>(&mean_loss, 1), comm::ReduceOp::Avg);
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);  // throws if a rank has other bits
  if (group.rank() != 0) return;
  std::printf("all ranks: loss %.4f, length of the gradient %.4f\n", mean_loss, length);
  for (const auto& [name, parameter] : model->named_parameters()) {
    if (!parameter.has_grad()) std::printf("%s has no gradient on any rank and stays as it was\n", name.c_str());
  }
  std::printf("parameters sha256 %s, the same on all %d ranks\n", hash.c_str(), group.world_size());
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t samples = 20;
  std::int64_t spare = 0;
  std::int64_t save = 0;
  return examples::run(argc, argv,
                       {{"--samples", samples, "of each rank"},
                        {"--spare", spare, "1: with a layer that nobody uses"},
                        {"--save", save, "1: rank 0 saves the model, and all ranks load it before they train"}},
                       [&](comm::ProcessGroup& group) { demo_basic(group, samples, spare != 0, save != 0); });
}
