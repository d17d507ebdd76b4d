// `tutti evaluate CHECKPOINT`: accuracy and confusion matrix of a checkpoint on its data. With --nproc N this very
// command is started N times.

#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/comm/process_group.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/evaluate_checkpoint.h>
#include <tutti/trainer/run_training.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>

namespace tutti::tools {
namespace {

struct EvaluateArguments {
  trainer::EvaluationRequest request;
  std::filesystem::path csv;
  std::filesystem::path json;
  std::optional<std::int64_t> nproc;
  std::int64_t threads = 0;
};

/// What can be said before anything is computed.
void check_surroundings(const EvaluateArguments& arguments) {
  (void)trainer::find_checkpoint(arguments.request.checkpoint);
  for (const auto& file : {arguments.csv, arguments.json}) {
    if (!file.empty()) trainer::check_writable(file);
  }
}

void print(const trainer::CheckpointEvaluation& evaluation) {
  std::cout << evaluation.options.model << " of " << evaluation.folder.string() << " on " << evaluation.samples
            << " samples of " << evaluation.data << "\n";
  if (!evaluation.note.empty()) std::cout << "note: " << evaluation.note << "\n";
  const std::size_t columns = comm::terminal_columns(STDOUT_FILENO);
  const char* const split = evaluation.split.c_str();
  if (evaluation.has_classes) {
    const trainer::ConfusionMatrix& confusion = evaluation.result.confusion;
    std::cout << "\n" << confusion.to_table(evaluation.class_names, columns) << "\n";
    std::cout << comm::format("%s accuracy %.4f  %s loss %.4f", split, confusion.accuracy(), split,
                              evaluation.result.loss);
  } else {
    std::cout << comm::format("%s loss %.6f", split, evaluation.result.loss);
  }
  if (evaluation.generated) std::cout << "  [" << evaluation.data << "]";
  std::cout << std::endl;
}

int evaluate_in_group(comm::ProcessGroup& group, const EvaluateArguments& arguments, const comm::World& world) {
  check_surroundings(arguments);
  tensor::set_num_threads(arguments.threads > 0 ? static_cast<int>(arguments.threads)
                                                : trainer::default_threads(world));
  trainer::EvaluationRequest request = arguments.request;
  const std::size_t columns = comm::terminal_columns(STDOUT_FILENO);
  trainer::Progress progress(std::cout, group.rank() == 0 && columns > 0 ? stdout : nullptr, columns, 0, "");
  request.progress = &progress;
  const auto evaluation = trainer::evaluate_checkpoint(request, group);
  if (group.rank() != 0) return 0;
  if (!arguments.csv.empty()) trainer::replace_file(arguments.csv, trainer::evaluation_to_csv(evaluation));
  if (!arguments.json.empty()) {
    trainer::replace_file(arguments.json, trainer::evaluation_to_json(evaluation, group.world_size()));
  }
  print(evaluation);
  return 0;
}

int evaluate_command(const EvaluateArguments& arguments) {
  const auto launched = world_size_from_launcher();
  if (const std::string why = nproc_objection(arguments.nproc); !why.empty()) throw WrongUsage(why);
  if (arguments.nproc.value_or(1) > 1 && !launched) {
    check_surroundings(arguments);  // once, before N ranks say the same
    return launch(launch_of_own_ranks(static_cast<int>(*arguments.nproc), "tutti evaluate"));
  }
  const comm::World world = comm::World::detect();
  return run_as_rank(world, {}, [&](comm::ProcessGroup& group) { return evaluate_in_group(group, arguments, world); });
}

}  // namespace

void add_evaluate_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("evaluate", "accuracy and confusion matrix of a checkpoint");
  const auto arguments = std::make_shared<EvaluateArguments>();
  command
      ->add_option("CHECKPOINT", arguments->request.checkpoint,
                   "a checkpoint's folder; or a folder of checkpoints or a run's (--run-dir), for the newest")
      ->required();
  command->add_option("--data", arguments->request.data,
                      "folder of the data [where --run-dir has it, else the usual places]");
  command->add_option("--test-list", arguments->request.test_list, "for mercer, as in training [as the run had it]");
  command->add_option("--split", arguments->request.split, "test; train, without augmentation; or all: both as one")
      ->check(CLI::IsMember({"test", "train", "all"}))
      ->capture_default_str();
  command->add_option("--csv", arguments->csv, "write the confusion matrix to this file");
  command->add_option("--json", arguments->json, "write the results to this file");
  add_own_ranks_options(*command, arguments->nproc);
  command->add_option("--threads", arguments->threads, "compute threads a rank [CPUs / ranks of this host]")
      ->check(CLI::Range(0, 1024));
  command->callback(
      [arguments, &status] { status = status_of("tutti evaluate", [&] { return evaluate_command(*arguments); }); });
}

}  // namespace tutti::tools
