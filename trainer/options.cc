#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/tensor/device.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/option_table.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/parallel_options.h>
#include <tutti/trainer/task.h>
#include <tutti/trainer/update_rule.h>

#include <utility>

namespace tutti::trainer {
namespace {

/// What a training on a GPU needs, and what it cannot do.
void check_gpu(const TrainOptions& options, tensor::Device device) {
  const std::string option = "--device " + options.device + ": ";
  const int count = tensor::cuda_device_count();
  if (count == 0) throw UsageError(option + tensor::cuda_status() + "; use --device cpu");
  if (device.index >= count) {
    throw UsageError(option + "there are " + std::to_string(count) + " (" + tensor::cuda_status() +
                     "), numbered from 0");
  }
  if (options.reproducible.value_or(false)) {
    throw UsageError(option + "--reproducible works on the CPU's memory; leave it out, or use --device cpu");
  }
}

void check_device(const TrainOptions& options) {
  tensor::Device device;
  try {
    device = tensor::parse_device(options.device);
  } catch (const std::invalid_argument& error) {
    throw UsageError("--device " + options.device + ": " + error.what());
  }
  if (device == tensor::Device{}) {
    if (options.tf32 || options.bf16)
      throw UsageError("--tf32 and --bf16 are for products on a GPU: add --device cuda");
    return;
  }
  if (device.kind == tensor::Device::Kind::Cpu) {
    throw UsageError("--device " + options.device +
                     ": on the CPU the trainer uses one device, cpu; programs with several are in tools/examples");
  }
  check_gpu(options, device);
}

void check_chaos(const std::string& text) {
  try {
    comm::Chaos{text};
  } catch (const comm::Error& error) {
    throw UsageError("--chaos: " + std::string(error.what()));
  }
}

}  // namespace

std::string device_of_rank(const std::string& device, int local_rank) {
  const tensor::Device parsed = tensor::parse_device(device);
  const bool any = parsed.kind == tensor::Device::Kind::Cuda && device.find(':') == std::string::npos;
  if (!any) return device;
  return tensor::name({tensor::Device::Kind::Cuda, local_rank % std::max(1, tensor::cuda_device_count())});
}

TrainOptions checked(TrainOptions options) {
  check_values(options);
  check_task(options);
  check_chaos(options.chaos);
  if (options.drop_last && !options.padding) {
    throw UsageError("--drop-last and --no-padding are two ways with samples that do not go round; choose one");
  }
  check_update_rule(options);
  check_parallel_options(options);
  check_device(options);
  if (!options.run_dir.empty()) {
    if (options.json.empty()) options.json = options.run_dir / "report.json";
    if (options.checkpoint_dir.empty()) options.checkpoint_dir = options.run_dir / "checkpoints";
  }
  if (options.eval_train && objective_of(options.model) != Objective::Classify) {
    throw UsageError("--eval-train shows an accuracy, but " + options.model + " does not classify");
  }
  if (options.resume && options.checkpoint_dir.empty()) {
    throw UsageError("--resume needs --checkpoint-dir (or --run-dir): where should it continue from?");
  }
  if (options.checkpoint_every > 0 && options.checkpoint_dir.empty()) {
    throw UsageError("--checkpoint-every needs --checkpoint-dir (or --run-dir): where should they go?");
  }
  return options;
}

void check_surroundings(const TrainOptions& options) {
  namespace fs = std::filesystem;
  check_task_data(options);
  try {
    if (!options.run_dir.empty()) fs::create_directories(options.run_dir);
    if (!options.checkpoint_dir.empty()) fs::create_directories(options.checkpoint_dir);
    if (!options.cache_dir.empty()) fs::create_directories(options.cache_dir);
  } catch (const fs::filesystem_error& error) {
    throw std::runtime_error("cannot create the folder " + error.path1().string() + ": " + error.code().message());
  }
  if (!options.json.empty()) check_writable(options.json);
  if (!options.cache_dir.empty()) check_writable(options.cache_dir / "pictures");
  if (options.checkpoint_dir.empty()) return;
  check_writable(options.checkpoint_dir / "state.json");
  const auto newest = newest_checkpoint(options.checkpoint_dir);
  if (newest && !options.resume) {
    throw std::runtime_error("the checkpoint folder already holds " + newest->string() +
                             " from an earlier run; add --resume to continue it, or name another folder");
  }
}

}  // namespace tutti::trainer
