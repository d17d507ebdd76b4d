// `tutti compare RUN_A RUN_B`: the first step and the first tensor that differ.

#include <tutti/tools/commands.h>
#include <tutti/trainer/report/compare_runs.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

namespace tutti::tools {
namespace {

constexpr int kEqual = 0, kDifferent = 1, kUnusable = 2;

struct CompareArguments {
  std::filesystem::path a;
  std::filesystem::path b;
  double tolerance = 0;
};

int compare_command(const CompareArguments& arguments) {
  try {
    if (!(arguments.tolerance >= 0)) throw WrongUsage("--tolerance: must be at least 0");
    const auto comparison = trainer::compare_runs(arguments.a, arguments.b, arguments.tolerance);
    std::cout << comparison.text << (comparison.equal ? "equal" : "different") << std::endl;
    return comparison.equal ? kEqual : kDifferent;
  } catch (const WrongUsage& error) {
    std::cerr << "tutti compare: " << error.what() << "\nRun 'tutti compare --help' for the options.\n";
  } catch (const std::exception& error) {
    std::cerr << "tutti compare: " << error.what() << "\n";
  }
  return kUnusable;
}

}  // namespace

void add_compare_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "compare",
      "the first step and the first tensor in which two runs differ; status 0 equal, 1 different, 2 neither");
  const auto arguments = std::make_shared<CompareArguments>();
  command->add_option("RUN_A", arguments->a, "what tutti train had as --run-dir")->required();
  command->add_option("RUN_B", arguments->b, "the other run's")->required();
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "relative: of losses to each other, of elements to the largest in their tensor; 0: bit for bit")
      ->capture_default_str();
  command->callback([arguments, &status] { status = compare_command(*arguments); });
}

}  // namespace tutti::tools
