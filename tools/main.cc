// The `tutti` program: finds the subcommand and ends with its status.

#include <sys/prctl.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/run/run_settings.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

// CLI11 prints help for --help and --version, and errors in its own form; ours is: one sentence, then where to look.
int report_parse_result(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::string command = "tutti";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  std::cerr << command << ": " << error.what() << "\nRun '" << command << " --help' for the options.\n";
  return 2;
}

// What `top` and `ps` show of a launcher's rank.
void name_after_rank() {
  const char* rank = std::getenv("RANK");
  const char* world_size = std::getenv("WORLD_SIZE");
  if (rank == nullptr || world_size == nullptr) return;
  ::prctl(PR_SET_NAME, (std::string("rank ") + rank + " of " + world_size).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  name_after_rank();
  CLI::App app("Tutti: collective communication, a small tensor engine and a data-parallel trainer", "tutti");
  app.set_version_flag("--version", "tutti " TUTTI_VERSION);
  app.require_subcommand(1);
  int status = 0;
  tutti::tools::add_run_command(app, status);
  tutti::tools::add_train_command(app, status);
  tutti::tools::add_bench_command(app, status);
  tutti::tools::add_data_command(app, status);
  tutti::tools::add_plan_command(app, status);
  tutti::tools::add_tune_command(app, status);
  tutti::tools::add_report_command(app, status);
  tutti::tools::add_evaluate_command(app, status);
  tutti::tools::add_compare_command(app, status);
  tutti::tools::add_store_command(app, status);
  tutti::tools::add_doctor_command(app, status);
  tutti::tools::add_lab_command(app, status);
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    if (mark != arguments.end()) *mark = tutti::tools::kProgramFollows;
    tutti::tools::accept_underscores(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // the order CLI11 takes a vector in
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return report_parse_result(app, error);
  } catch (const std::exception& error) {
    std::cerr << "tutti: " << error.what() << "\n";
    return 1;
  }
  return status;
}
