// Rank 0 saves the model, all ranks load it, and the file goes away when nobody needs it any more. (programs.md, row
// 15)
//
//   tutti run -n 4 build/release/bin/examples/demo_checkpoint
//
// The file is safetensors: PyTorch reads it, and no code is run by reading it. `tutti train --checkpoint-dir` does more
// (optimizer, position, checksums): trainer/checkpoint/.
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

#include <cstdio>
#include <filesystem>

namespace {

using namespace tutti;
namespace fs = std::filesystem;

void train_one_step(comm::ProcessGroup& group, const std::shared_ptr<nn::Module>& model) {
  trainer::DataParallel parallel(model, group);
  const auto optimizer = nn::make_sgd(examples::parameters_of(*model), {.learning_rate = 0.001});
  const std::int64_t first = 20 * group.rank();
  optimizer->zero_grad();
  const tensor::Variable output = parallel.forward(tensor::Variable(examples::randn(first, {20, 10}, 1)));
  parallel.backward(tensor::mse_loss(output, examples::randn(first, {20, 5}, 2)), 1.0 / group.world_size());
  parallel.finish();
  optimizer->step();
}

void demo_checkpoint(comm::ProcessGroup& group) {
  // A name that no other run on this machine has; rank 0 chooses it and tells the others.
  std::string name = "tutti-demo-" + std::to_string(::getpid()) + ".safetensors";
  name = trainer::broadcast_text(group, (fs::temp_directory_path() / name).string(), 0);
  const fs::path path = name;

  const auto model = std::make_shared<examples::ToyModel>(static_cast<std::uint64_t>(group.rank()));
  if (group.rank() == 0) {
    trainer::replace_file(path, trainer::encode_safetensors(trainer::model_tensors(*model)));  // complete or absent
    std::printf("rank 0: saved %s\n", path.c_str());
  }
  group.barrier();  // nobody reads before the file is there

  const trainer::Safetensors saved = trainer::read_safetensors(path);
  trainer::assign_tensors(trainer::model_tensors(*model), saved.tensors, path.string());
  std::printf("rank %d: loaded %zu tensors, sha256 %.16s\n", group.rank(), saved.tensors.size(),
              trainer::parameter_sha256(*model).c_str());
  group.barrier();  // nobody removes it before all have read
  if (group.rank() == 0) fs::remove(path);

  train_one_step(group, model);
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);
  if (group.rank() == 0) std::printf("rank 0: trained a step, sha256 %.16s, the same on all ranks\n", hash.c_str());
}

}  // namespace

int main(int argc, char** argv) { return tutti::examples::run(argc, argv, {}, demo_checkpoint); }
