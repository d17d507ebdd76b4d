#include <tutti/nn/models/models.h>
#include <tutti/tensor/device.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/data/mnist.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/update_rule.h>

#include <algorithm>

namespace tutti::trainer {
namespace {

constexpr const char* kMnistModels[] = {"mlp", "autoencoder"};
constexpr int kMaxThreads = 1024;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_model(const TrainOptions& options) {
  if (std::find(std::begin(kMnistModels), std::end(kMnistModels), options.model) != std::end(kMnistModels)) return;
  const auto known = nn::model_names();
  const std::string fitting = joined({std::begin(kMnistModels), std::end(kMnistModels)});
  if (std::find(known.begin(), known.end(), options.model) != known.end()) {
    throw UsageError("--model " + options.model + " does not take MNIST's 28 x 28 pictures; the models that fit are " +
                     fitting);
  }
  throw UsageError("--model " + options.model + " is not known; the models for MNIST are " + fitting);
}

void check_device(const TrainOptions& options) {
  tensor::Device device;
  try {
    device = tensor::parse_device(options.device);
  } catch (const std::invalid_argument& error) {
    throw UsageError("--device " + options.device + ": " + error.what());
  }
  if (device.kind == tensor::Device::Kind::Cpu) return;
  throw UsageError("--device " + options.device + ": this version trains on the CPU (" + tensor::cuda_status() + ")");
}

void check_at_least(const char* option, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw UsageError(std::string(option) + " " + std::to_string(value) + ": must be at least " + std::to_string(least));
}

}  // namespace

TrainOptions checked(TrainOptions options) {
  if (options.task != "mnist") throw UsageError("the task " + options.task + " is not known; there is mnist");
  check_model(options);
  check_at_least("--epochs", options.epochs, 1);
  check_at_least("--batch-size", options.batch_size, 1);
  check_at_least("--threads", options.threads, 0);
  check_at_least("--workers", options.workers, 0);
  for (const auto& [option, value] : {std::pair("--threads", options.threads), {"--workers", options.workers}}) {
    if (value > kMaxThreads) throw UsageError(std::string(option) + " " + std::to_string(value) + ": at most 1024");
  }
  if (options.timeout.count() <= 0) throw UsageError("--timeout: must be above 0 seconds");
  if (options.buckets.bucket_cap_bytes == 0 || options.buckets.first_bucket_bytes == 0) {
    throw UsageError("--bucket-cap 0: must be at least 1 byte");
  }
  check_update_rule(options);
  check_device(options);
  if (!options.run_dir.empty()) {
    if (options.json.empty()) options.json = options.run_dir / "report.json";
    if (options.checkpoint_dir.empty()) options.checkpoint_dir = options.run_dir / "checkpoints";
  }
  if (options.resume && options.checkpoint_dir.empty()) {
    throw UsageError("--resume needs --checkpoint-dir (or --run-dir): where should it continue from?");
  }
  return options;
}

void check_surroundings(const TrainOptions& options) {
  namespace fs = std::filesystem;
  (void)find_mnist(DataSearch::from_environment(options.data));
  try {
    if (!options.run_dir.empty()) fs::create_directories(options.run_dir);
    if (!options.checkpoint_dir.empty()) fs::create_directories(options.checkpoint_dir);
  } catch (const fs::filesystem_error& error) {
    throw std::runtime_error("cannot create the folder " + error.path1().string() + ": " + error.code().message());
  }
  if (!options.json.empty()) check_writable(options.json);
  if (options.checkpoint_dir.empty()) return;
  check_writable(options.checkpoint_dir / "state.json");
  const auto newest = newest_checkpoint(options.checkpoint_dir);
  if (newest && !options.resume) {
    throw std::runtime_error("the checkpoint folder already holds " + newest->string() +
                             " from an earlier run; add --resume to continue it, or name another folder");
  }
}

std::map<std::string, std::string> options_that_must_agree(const TrainOptions& options, int world_size,
                                                           const std::string& data_name) {
  std::map<std::string, std::string> texts = update_rule_texts(options);
  texts.insert({{"task", options.task},
                {"model", options.model},
                {"data", data_name},
                {"global batch", std::to_string(options.batch_size * world_size)},
                {"seed", std::to_string(options.seed)}});
  return texts;
}

}  // namespace tutti::trainer
