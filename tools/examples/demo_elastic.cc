// Training that goes on after a rank has died. (programs.md, row 17)
//
//   tutti run -n 4 --max-restarts 1 build/release/bin/examples/demo_elastic --die-at 6
//
// In the first attempt the last rank is killed before step 6, as by a kernel that is out of memory. The launcher names
// it, ends the other ranks and starts all of them again; they read how far the last checkpoint is and go on from there.
// The result has the same bits as a run without the accident (`--die-at -1`).
#include <signal.h>
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
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace tutti;
namespace fs = std::filesystem;

constexpr std::int64_t kSteps = 10;
constexpr std::int64_t kSamples = 20;  // of each rank in each step

/// How often the launcher has started this job again; 0 without a launcher.
int restarts() {
  const char* text = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return text == nullptr ? 0 : std::atoi(text);
}

/// The same in all attempts of a job: the launcher's number for it.
fs::path checkpoint_file() {
  const char* job = std::getenv("TORCHELASTIC_RUN_ID");
  return fs::temp_directory_path() / ("tutti-elastic-" + std::string(job == nullptr ? "alone" : job) + ".safetensors");
}

/// Returns the step to go on with. Plain SGD has no state; another optimizer's state() would go into the file, too.
std::int64_t resume(const fs::path& path, const nn::Module& model) {
  if (!fs::exists(path)) return 0;
  const trainer::Safetensors saved = trainer::read_safetensors(path);
  trainer::assign_tensors(trainer::model_tensors(model), saved.tensors, path.string());
  return std::stoll(saved.metadata.at("step"));
}

void save(const fs::path& path, const nn::Module& model, std::int64_t next_step) {
  const std::map<std::string, std::string> notes{{"step", std::to_string(next_step)}};
  trainer::replace_file(path, trainer::encode_safetensors(trainer::model_tensors(model), notes));
}

void train(comm::ProcessGroup& group, std::int64_t die_at) {
  const fs::path path = checkpoint_file();
  const auto model = std::make_shared<examples::ToyModel>(0);
  const std::int64_t begin = resume(path, *model);
  if (group.rank() == 0) std::printf("attempt %d starts with step %lld\n", restarts(), static_cast<long long>(begin));
  trainer::DataParallel parallel(model, group);
  const auto optimizer = nn::make_sgd(examples::parameters_of(*model), {.learning_rate = 0.05});
  for (std::int64_t step = begin; step < kSteps; ++step) {
    if (step == die_at && group.rank() == group.world_size() - 1 && restarts() == 0) ::raise(SIGKILL);
    const std::int64_t first = (step * group.world_size() + group.rank()) * kSamples;
    optimizer->zero_grad();
    const tensor::Variable output = parallel.forward(tensor::Variable(examples::randn(first, {kSamples, 10}, 1)));
    parallel.backward(tensor::mse_loss(output, examples::randn(first, {kSamples, 5}, 2)), 1.0 / group.world_size());
    parallel.finish();
    optimizer->step();
    if (group.rank() == 0) save(path, *model, step + 1);
  }
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);
  if (group.rank() != 0) return;
  fs::remove(path);
  std::printf("after %lld steps: parameters sha256 %s\n", static_cast<long long>(kSteps), hash.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t die_at = 6;
  return tutti::examples::run(argc, argv,
                              {{"--die-at", die_at, "step before which the last rank is killed; -1: never"}},
                              [&](comm::ProcessGroup& group) { train(group, die_at); });
}
