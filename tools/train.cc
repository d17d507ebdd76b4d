// `tutti train TASK`: the command line of the trainer. The work is in trainer/; here options are read, and with
// --nproc N this very command is started N times.

#include <tutti/tools/commands.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/elastic/elastic_training.h>
#include <tutti/trainer/run_training.h>
#include <tutti/trainer/task.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {
namespace {

using trainer::UsageError;

struct TrainArguments {
  trainer::TrainOptions train;
  std::optional<std::string> data;
  std::optional<std::string> cache_dir;
  std::optional<std::string> test_list;
  bool no_cache = false;
  std::int64_t seed = 0;  // signed, so that -1 is refused and not taken for 2^64 - 1
  std::optional<std::int64_t> nproc;
  bool elastic = false;
  bool live = false;  // the launcher of these ranks shows live lines
  std::optional<int> max_restarts;
  std::optional<int> min_ranks;
  std::optional<std::int64_t> bucket_cap;
  std::optional<double> timeout_seconds;
};

void add_update_options(CLI::App& app, trainer::TrainOptions& train) {
  app.add_option("--optimizer", train.optimizer, "adam, adamw, sgd or adadelta; naming one takes its own defaults")
      ->capture_default_str();
  app.add_option("--lr", train.learning_rate, "learning rate [adam, adamw 0.001; sgd 0.01; adadelta 1]");
  app.add_option("--momentum", train.momentum, "for sgd")->capture_default_str();
  app.add_flag("--nesterov", train.nesterov, "look ahead, for sgd with momentum");
  app.add_option("--weight-decay", train.weight_decay, "as PyTorch's [adamw 0.01, else 0]");
  app.add_option("--schedule", train.schedule, "of the learning rate: none, step, cosine or one-cycle")
      ->capture_default_str();
  app.add_option("--schedule-every", train.schedule_every, "step: epochs from drop to drop [a third of --epochs]");
  app.add_option("--schedule-factor", train.schedule_factor, "step: what a drop multiplies by")->capture_default_str();
  app.add_option("--warm-up", train.warm_up_epochs, "epochs in which the learning rate climbs")->capture_default_str();
  app.add_option("--clip-norm", train.clip_norm, "longest gradient; longer ones are shortened to it");
  app.add_option("--label-smoothing", train.label_smoothing, "part of each label that all classes share, in training")
      ->capture_default_str();
}

void add_mnist_options(CLI::App& app, TrainArguments& arguments) {
  app.add_option("--model", arguments.train.model, "mlp, autoencoder, cnn or lenet5")->capture_default_str();
  app.add_option("--data", arguments.data,
                 "folder of the MNIST files; else $TUTTI_DATA, ./data/mnist, the user's cache");
}

void add_mercer_options(CLI::App& app, TrainArguments& arguments) {
  trainer::TrainOptions& train = arguments.train;
  app.add_option("--model", train.model, "simple_net, resnet18, resnet34, resnet50, resnet101 or efficientnet_b0")
      ->capture_default_str();
  app.add_option("--data", arguments.data,
                 "folder with a folder of PNG, JPEG or TIFF files for each class; else $TUTTI_DATA/mercer, "
                 "./data/mercer, the user's cache");
  app.add_option("--image-size", train.image_size, "pictures are resized to this many pixels a side")
      ->capture_default_str();
  app.add_flag("--augment,!--no-augment", train.augment, "flips and quarter turns while training [on]");
  app.add_option("--test-list", arguments.test_list,
                 "file with the pictures to test on, one relative path a line [those whose number ends in 4 or 9]");
  app.add_flag("--sync-batch-norm", train.sync_batch_norm, "batch norm over the samples of all ranks, not of each");
  app.add_flag("--skip-bad-images", train.skip_bad_images, "leave out pictures that cannot be decoded, and list them");
  app.add_option("--cache-dir", arguments.cache_dir, "where decoded pictures are kept [the user's cache]");
  app.add_flag("--no-cache", arguments.no_cache, "decode all pictures in every run");
}

void add_options(CLI::App& app, TrainArguments& arguments) {
  trainer::TrainOptions& train = arguments.train;
  app.add_option("--epochs", train.epochs, "passes over the data, those before a resume included")
      ->capture_default_str();
  app.add_option("--batch-size", train.batch_size, "samples a step on each rank")->capture_default_str();
  app.add_option("--micro-batch-size", train.micro_batch_size,
                 "samples of a step that a rank computes on together; fewer take less memory [all]");
  add_update_options(app, train);
  app.add_option("--seed", arguments.seed, "of the first weights and of the sample order")->capture_default_str();
  app.add_flag_function(
      "--reproducible,!--no-reproducible", [&train](std::int64_t asked) { train.reproducible = asked > 0; },
      "the same parameters, bit for bit, on any number of ranks with the same global batch; the default where "
      "model and options allow it. --no-reproducible: faster sums");
  app.add_option("--comm-hook", train.comm_hook, "how gradients travel: none, bf16, fp16 or topk")
      ->capture_default_str();
  app.add_option("--topk-density", train.topk_density, "topk: part of each parameter's numbers that is sent [0.05]");
  app.add_flag("--shard-optimizer", train.shard_optimizer,
               "each rank keeps its share of the optimizer's state (ZeRO-1)");
  app.add_flag("--drop-last", train.drop_last,
               "leave out the last, incomplete batch of all ranks; else some samples are repeated");
  app.add_flag("--padding,!--no-padding", train.padding, "--no-padding: take each sample once, on some ranks one more");
  app.add_option("--nproc", arguments.nproc, "ranks to start on this host, when no launcher has done so");
  app.add_flag("--elastic", arguments.elastic,
               "with --nproc: a rank that is lost is replaced, and the others train on from where they are");
  app.add_option("--max-restarts", arguments.max_restarts, "--elastic: so many times [3]");
  app.add_option("--min-ranks", arguments.min_ranks, "--elastic: then go on with fewer, but not below this [all]");
  app.add_flag("--live", arguments.live)->group("");  // hidden
  add_launcher_option(app);
  add_interface_option(app);
  app.add_option("--device", train.device, "cpu, or cuda: the ranks of a host take turns on its GPUs; cuda:1 names one")
      ->capture_default_str();
  app.add_option("--threads", train.threads, "compute threads a rank [CPUs / ranks of this host]");
  app.add_option("--workers", train.workers, "threads that prepare batches; 0: the training thread")
      ->capture_default_str();
  app.add_option("--checkpoint-dir", train.checkpoint_dir, "write a checkpoint after every epoch");
  app.add_option("--checkpoint-every", train.checkpoint_every, "and after so many steps; 0: after epochs only")
      ->capture_default_str();
  app.add_option("--keep-checkpoints", train.keep_checkpoints, "how many of the newest stay; 0: all")
      ->capture_default_str();
  app.add_flag("--resume", train.resume, "continue from the newest checkpoint there");
  app.add_option("--run-dir", train.run_dir,
                 "folder for records of every step, TensorBoard events and a log of all ranks; and for report.json and "
                 "checkpoints/, where not named otherwise");
  app.add_option("--json", train.json, "write the results to this file");
  app.add_option("--trace", train.trace, "write what all ranks communicated to this file, for ui.perfetto.dev");
  app.add_flag("--encrypt", train.encrypt, "TLS on TCP connections between ranks, as TUTTI_ENCRYPT=1");
  app.add_option(
      "--chaos", train.chaos,
      "what goes wrong on purpose, at a step of the run (from 0): kill:rank=1,step=20, freeze:rank=1,step=20, "
      "slow:rank=1,factor=3, delay:rank=1,ms=200; several with ;");
  app.add_option("--timeout", arguments.timeout_seconds, "seconds until a rank that does not answer is an error [300]");
  app.add_option("--bucket-cap", arguments.bucket_cap, "largest gradient bucket in bytes");
}

std::filesystem::path path_of(const char* option, const std::optional<std::string>& value) {
  if (value && value->empty()) throw UsageError(std::string(option) + " is empty; name a folder, or leave it out");
  return value.value_or("");
}

/// What the command line says, in the trainer's terms. Throws UsageError.
trainer::TrainOptions interpreted(const TrainArguments& arguments) {
  trainer::TrainOptions options = arguments.train;
  options.data = path_of("--data", arguments.data);
  options.cache_dir = path_of("--cache-dir", arguments.cache_dir);
  options.test_list = path_of("--test-list", arguments.test_list);
  options.use_cache = !arguments.no_cache;
  if (arguments.seed < 0) throw UsageError("--seed " + std::to_string(arguments.seed) + ": must be at least 0");
  options.seed = static_cast<std::uint64_t>(arguments.seed);
  const bool ranks_change = std::getenv("TUTTI_CONTROL") != nullptr;
  if (const std::string why = nproc_objection(arguments.nproc, ranks_change); !why.empty()) throw UsageError(why);
  if ((arguments.max_restarts || arguments.min_ranks) && !arguments.elastic) {
    throw UsageError("--max-restarts and --min-ranks belong to --elastic");
  }
  if (arguments.elastic && world_size_from_launcher() && !ranks_change) {
    throw UsageError(
        "--elastic, but the launcher that has started these ranks is not elastic; give --elastic to tutti run");
  }
  if (arguments.bucket_cap) {
    if (*arguments.bucket_cap < 1) {
      throw UsageError("--bucket-cap " + std::to_string(*arguments.bucket_cap) + ": must be at least 1 byte");
    }
    options.buckets.bucket_cap_bytes = static_cast<std::size_t>(*arguments.bucket_cap);
    options.buckets.first_bucket_bytes = options.buckets.bucket_cap_bytes;
  }
  if (arguments.timeout_seconds) {
    const double seconds = *arguments.timeout_seconds;
    if (!(seconds >= 0.001 && seconds <= 1e9)) throw UsageError("--timeout: must be between 0.001 and 1e9 seconds");
    options.timeout = std::chrono::milliseconds(std::llround(seconds * 1000));
  }
  return trainer::checked(std::move(options));
}

/// A task's update rule belongs together: who names another optimizer gets that one's own defaults for the rest.
void forget_task_rule(const CLI::App& app, trainer::TrainOptions& options) {
  const trainer::TrainOptions plain;
  if (app.count("--lr") == 0) options.learning_rate = plain.learning_rate;
  if (app.count("--momentum") == 0) options.momentum = plain.momentum;
  if (app.count("--weight-decay") == 0) options.weight_decay = plain.weight_decay;
  if (app.count("--schedule") == 0) options.schedule = plain.schedule;
}

int launch_ranks(const TrainArguments& arguments, const trainer::TrainOptions& options) {
  trainer::check_surroundings(options);  // once, before N ranks say the same
  if (arguments.elastic) trainer::check_elastic_options(options);
  LaunchOptions launching = launch_of_own_ranks(static_cast<int>(arguments.nproc.value_or(1)), "tutti train");
  if (arguments.elastic) {
    launching.elastic = ElasticLimits{.min_ranks = arguments.min_ranks.value_or(launching.nproc)};
    launching.max_restarts = arguments.max_restarts.value_or(3);
  }
  if (isatty(STDOUT_FILENO) == 1) launching.command.push_back("--live");
  return launch(launching);
}

int train(const TrainArguments& arguments) {
  try {
    const trainer::TrainOptions options = interpreted(arguments);
    const bool launched = world_size_from_launcher().has_value();
    if ((arguments.nproc.value_or(1) > 1 || arguments.elastic) && !launched) return launch_ranks(arguments, options);
    const bool live = arguments.live || isatty(STDOUT_FILENO) == 1;
    return trainer::run_training(options, {.out = std::cout, .err = std::cerr, .live = live ? stdout : nullptr});
  } catch (const UsageError& error) {
    std::cerr << "tutti train: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "tutti train: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("train", "train a model on several ranks");
  command->require_subcommand(1);
  const auto add = [&](const char* task, const char* description, void (*add_own_options)(CLI::App&, TrainArguments&)) {
    CLI::App* sub = command->add_subcommand(task, description);
    const auto arguments = std::make_shared<TrainArguments>();
    arguments->train = trainer::default_options(task);
    add_own_options(*sub, *arguments);
    add_options(*sub, *arguments);
    sub->callback([arguments, sub, &status] {
      if (sub->count("--optimizer") > 0) forget_task_rule(*sub, arguments->train);
      status = train(*arguments);
    });
  };
  add("mnist", "handwritten digits, 28 x 28 pictures", add_mnist_options);
  add("mercer",
      "land use from the air, colour pictures in folders; sgd with lr 0.05 and weight decay 5e-4 unless said otherwise",
      add_mercer_options);
}

}  // namespace tutti::tools
