// TrainOptions: what a training run is asked to do, and whether that makes sense.
//
// Values with defaults; tools/train.cc fills them from the command line, tests and embedders by hand. What else there
// is to know of each is its row in option_table.h.
#pragma once

#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::trainer {

/// A request that cannot be meant: exit status 2. what() is one sentence naming the option, its value and what fits.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct TrainOptions {
  std::string task = "mnist";
  std::string model = "mlp";
  std::filesystem::path data;          // empty: look in the usual places, else draw digits
  int epochs = 5;                      // in total, those before a resume included
  std::int64_t batch_size = 64;        // per rank
  std::int64_t global_batch_size = 0;  // of all ranks together, in place of batch_size; 0: batch_size on each
  /// Samples of a step that a rank computes on together, to save memory; their gradients add up. 0: all.
  std::int64_t micro_batch_size = 0;
  std::string optimizer = "adam";
  std::optional<double> learning_rate;  // not set: 1e-3 for adam and adamw, 1e-2 for sgd, 1 for adadelta
  double momentum = 0;                  // sgd only
  bool nesterov = false;                // sgd with momentum only
  std::optional<double> weight_decay;   // not set: 1e-2 for adamw, else 0
  std::string schedule = "none";        // of the learning rate: none, step, cosine, one-cycle
  int schedule_every = 0;               // step: epochs between two drops; 0: a third of all
  double schedule_factor = 0.1;         // step: what each drop multiplies by
  int warm_up_epochs = 0;               // in which the rate climbs from 0
  std::optional<double> clip_norm;      // the longest gradient
  double label_smoothing = 0;           // in training; tests count the plain cross entropy
  std::uint64_t seed = 0;
  /// The same bits of parameters on any number of ranks with one global batch: demanded; given up for speed; by default
  /// wherever model, device and exchange allow it (but padding, which depends on the ranks, stays as asked for).
  std::optional<bool> reproducible;
  bool drop_last = false;              // leave out the samples of an incomplete batch of all ranks
  bool padding = true;                 // repeat some instead; false: neither, ranks may differ by a sample
  std::string comm_hook = "none";      // how gradients travel: none, bf16, fp16, topk
  std::optional<double> topk_density;  // topk: part of the numbers that is sent; not set: 0.05
  bool shard_optimizer = false;        // each rank keeps and updates its share of the optimizer's state
  bool sync_batch_norm = false;        // batch norm over the batch of all ranks
  std::string device = "cpu";          // "cuda": the ranks of a host take turns on its GPUs; "cuda:1": that one
  bool tf32 = false;                   // products on a GPU, of the process from then on: tensor/products.h
  bool bf16 = false;                   // the same; before tf32
  int threads = 0;                     // of compute per rank; 0: this host's CPUs divided by its ranks
  int workers = 0;  // threads that prepare batches; 0: the training thread, which for MNIST is the fastest
  std::filesystem::path checkpoint_dir;
  std::int64_t checkpoint_every = 0;  // steps of the run from one to the next; 0: at the ends of epochs only
  int keep_checkpoints = 3;           // the newest ones; 0: all
  bool resume = false;
  std::filesystem::path weights;  // a safetensors file that the model begins with; empty: drawn by seed
  bool eval_train = false;        // the accuracy on the training set, too, after every epoch
  std::int64_t log_every = 0;     // steps from one line of rank 0 to the next; 0: a line an epoch
  std::filesystem::path json;
  /// If set: where the run is recorded (report/run_recorder.h), and the default place of the JSON (report.json) and the
  /// checkpoints (checkpoints/).
  std::filesystem::path run_dir;
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};
  std::filesystem::path trace;  // if set: where all ranks' communication is written, for ui.perfetto.dev
  bool encrypt = false;         // TLS on TCP connections between ranks
  std::string chaos;            // what goes wrong on purpose: comm/failure/chaos.h; counts steps of the run from 0
  BucketLimits buckets;

  // For pictures in folders (task mercer).
  std::int64_t image_size = 64;     // they are resized to squares of this side
  bool augment = false;             // flips and quarter turns while training
  std::filesystem::path test_list;  // the pictures to test on, one relative path a line; empty: by their numbers
  bool skip_bad_images = false;     // leave out what cannot be decoded; else it is an error
  std::filesystem::path cache_dir;  // of decoded pictures; empty: the user's cache
  bool use_cache = true;

  std::int64_t global_batch(int ranks) const { return global_batch_size > 0 ? global_batch_size : batch_size * ranks; }
  double effective_learning_rate() const;
  double effective_weight_decay() const;
  int effective_schedule_every() const;
  double effective_topk_density() const { return topk_density.value_or(0.05); }
};

/// An option's name without dashes -> its value.
using OptionTexts = std::map<std::string, std::string>;

/// Fills what follows from other options (run_dir) and checks the rest. Throws UsageError.
TrainOptions checked(TrainOptions options);

/// The device of one of a host's ranks, given the option's text.
std::string device_of_rank(const std::string& device, int local_rank);

/// Checks what lies outside of the options, before hours are spent: data there or not needed, JSON and checkpoint
/// folder writable, no checkpoint of another run in the way. Throws std::runtime_error naming the path. Rank 0's
/// business.
void check_surroundings(const TrainOptions& options);

/// What a continuation must share with the run that wrote a checkpoint. What is not used has no line, so that
/// checkpoints stay good when options are added. A schedule that ends with the run brings the number of epochs in.
OptionTexts options_that_must_agree(const TrainOptions& options, int world_size, const std::string& data_name);

/// What a run's folder tells of its options: `agreed` (options_that_must_agree) and what may differ between a run and
/// its continuation. Options that were not given have no line.
OptionTexts recorded_options(const TrainOptions& options, const OptionTexts& agreed, int world_size, int threads);

}  // namespace tutti::trainer
