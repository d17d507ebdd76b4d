// `tutti train TASK`: the command line of the trainer. The work is in trainer/; here options are read, and with
// --nproc N this very command is started N times.

#include <tutti/comm/base/terminal.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/help.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/elastic/elastic_training.h>
#include <tutti/trainer/option_table.h>
#include <tutti/trainer/run_training.h>
#include <tutti/trainer/task.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace tutti::tools {
namespace {

using trainer::UsageError;

struct TrainArguments {
  trainer::TrainOptions train;
  std::optional<std::int64_t> nproc;
  bool elastic = false;
  std::size_t columns = 0;  // of the terminal of the launcher that started these ranks with --nproc
  std::optional<int> max_restarts;
  std::optional<int> min_ranks;
};

/// One row of the table of options, whose value is of any of its types.
template <typename Value>
void add_option(CLI::App& app, const std::string& name, const std::string& help, Value& value) {
  const std::string flag = "--" + name;
  const std::string both = flag + ",!--no-" + name;
  if constexpr (std::is_same_v<Value, bool>) {
    app.add_flag(value ? both : flag, value, help);
  } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
    app.add_flag_function(
        both, [&value](std::int64_t asked) { value = asked > 0; }, help);
  } else if constexpr (std::is_same_v<Value, std::uint64_t>) {  // read with a sign, so that -1 is no large number
    const auto read = [&value, flag](const std::int64_t& given) {
      if (given < 0) throw CLI::ValidationError(flag + " " + std::to_string(given), "must be at least 0");
      value = static_cast<std::uint64_t>(given);
    };
    app.add_option_function<std::int64_t>(flag, read, help)->default_str(std::to_string(value));
  } else if constexpr (std::is_same_v<Value, std::chrono::milliseconds>) {
    const auto read = [&value, flag](const double& seconds) {
      if (!(seconds >= 0.001 && seconds <= 1e9)) {
        throw CLI::ValidationError(flag, "must be between 0.001 and 1e9 seconds");
      }
      value = std::chrono::milliseconds(std::llround(seconds * 1000));
    };
    app.add_option_function<double>(flag, read, help);
  } else {
    CLI::Option* const option = app.add_option(flag, value, help);
    bool shown = !help.ends_with(']');
    if constexpr (requires { value.empty(); }) shown = shown && !value.empty();
    if constexpr (std::is_same_v<Value, std::optional<double>>) shown = false;
    if (shown) option->capture_default_str();
  }
}

void add_options(CLI::App& app, const trainer::TaskHelp& task, TrainArguments& arguments) {
  for (const trainer::TrainOption& option : trainer::option_table()) {
    const bool of_others = option.is(trainer::option_traits::kPictures) && !trainer::has_pictures(task.name);
    if (option.help == nullptr || of_others) continue;
    const char* const help = option.name == "model" ? task.models : option.name == "data" ? task.data : option.help;
    trainer::with_value(option, arguments.train,
                        [&](auto& value) { add_option(app, std::string(option.name), help, value); });
  }
  add_own_ranks_options(app, arguments.nproc);
  app.add_flag("--elastic", arguments.elastic,
               "with --nproc: a rank that is lost is replaced, and the others train on from where they are");
  app.add_option("--max-restarts", arguments.max_restarts, "--elastic: so many times [3]");
  app.add_option("--min-ranks", arguments.min_ranks, "--elastic: then go on with fewer, but not below this [all]");
  add_columns_option(app, arguments.columns);
  group_options(
      app, {{"Update rule",
             {"--optimizer", "--lr", "--momentum", "--nesterov", "--weight-decay", "--schedule", "--schedule-every",
              "--schedule-factor", "--warm-up", "--clip-norm", "--label-smoothing"}},
            {"Pictures",
             {"--image-size", "--augment", "--test-list", "--sync-batch-norm", "--skip-bad-images", "--cache-dir",
              "--cache"}},
            {"Ranks",
             {"--nproc", "--launcher", "--iface", "--elastic", "--max-restarts", "--min-ranks", "--timeout",
              "--encrypt", "--chaos"}},
            {"Gradients and batches of all ranks",
             {"--micro-batch-size", "--reproducible", "--comm-hook", "--topk-density", "--shard-optimizer",
              "--drop-last", "--padding", "--bucket-cap"}},
            {"Checkpoints", {"--checkpoint-dir", "--checkpoint-every", "--keep-checkpoints", "--resume", "--weights"}},
            {"Output", {"--eval-train", "--log-every", "--run-dir", "--json", "--trace"}}});
}

/// What the command line says, in the trainer's terms. Throws UsageError.
trainer::TrainOptions interpreted(const TrainArguments& arguments) {
  const bool ranks_change = std::getenv("TUTTI_CONTROL") != nullptr;
  if (const std::string why = nproc_objection(arguments.nproc, ranks_change); !why.empty()) throw UsageError(why);
  if ((arguments.max_restarts || arguments.min_ranks) && !arguments.elastic) {
    throw UsageError("--max-restarts and --min-ranks belong to --elastic");
  }
  if (arguments.elastic && world_size_from_launcher() && !ranks_change) {
    throw UsageError(
        "--elastic, but the launcher that has started these ranks is not elastic; give --elastic to tutti run");
  }
  return trainer::checked(arguments.train);
}

/// What options say of others that were not given. A task's update rule belongs together: naming another optimizer than
/// the task's takes that one's own defaults for the rest.
void complete(const CLI::App& app, trainer::TrainOptions& options) {
  if (app.count("--bucket-cap") > 0) options.buckets.first_bucket_bytes = options.buckets.bucket_cap_bytes;
  if (options.optimizer == trainer::default_options(options.task).optimizer) return;
  const trainer::TrainOptions plain;
  if (app.count("--lr") == 0) options.learning_rate = plain.learning_rate;
  if (app.count("--momentum") == 0) options.momentum = plain.momentum;
  if (app.count("--weight-decay") == 0) options.weight_decay = plain.weight_decay;
  if (app.count("--schedule") == 0) options.schedule = plain.schedule;
}

int launch_ranks(const TrainArguments& arguments, const trainer::TrainOptions& options) {
  trainer::check_surroundings(options);  // once, before N ranks say the same
  if (arguments.elastic) trainer::check_elastic_options(options);
  LaunchOptions launching =
      launch_of_own_ranks(static_cast<int>(arguments.nproc.value_or(1)), "tutti train", STDOUT_FILENO);
  if (arguments.elastic) {
    launching.elastic = ElasticLimits{.min_ranks = arguments.min_ranks.value_or(launching.nproc)};
    launching.max_restarts = arguments.max_restarts.value_or(3);
  }
  return launch(launching);
}

int train(const TrainArguments& arguments) {
  const trainer::TrainOptions options = interpreted(arguments);
  const bool launched = world_size_from_launcher().has_value();
  if ((arguments.nproc.value_or(1) > 1 || arguments.elastic) && !launched) return launch_ranks(arguments, options);
  const std::size_t own = comm::terminal_columns(STDOUT_FILENO);
  const std::size_t columns = own > 0 ? own : arguments.columns;
  std::FILE* const live = columns > 0 ? stdout : nullptr;
  return trainer::run_training(options, {.out = std::cout, .err = std::cerr, .live = live, .columns = columns});
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("train", "train a model on several ranks");
  command->require_subcommand(1);
  for (const trainer::TaskHelp& task : trainer::task_list()) {
    CLI::App* sub = command->add_subcommand(task.name, task.about);
    const auto arguments = std::make_shared<TrainArguments>();
    arguments->train = trainer::default_options(task.name);
    add_options(*sub, task, *arguments);
    sub->callback([arguments, sub, &status] {
      complete(*sub, arguments->train);
      status = status_of<UsageError>("tutti train", [&] { return train(*arguments); });
    });
  }
}

}  // namespace tutti::tools
