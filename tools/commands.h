// The subcommands of `tutti`, one file each. Every function adds its subcommand to `app`; the subcommand's callback
// sets `status` to the program's exit status: 0 done, 1 failed, 2 wrong usage. `status` must live until parsing has
// ended.
#pragma once

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// What main() puts in the place of the first "--". CLI11 2.1 hands that word to the app above the subcommand, where it
/// ends as an error; `tutti run` must see it, for what follows is another program's command line.
inline constexpr char kProgramFollows[] = "\x1e--";

/// A wrong command line; what() is one sentence.
struct WrongUsage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Does a command's `work`, which returns its exit status. What it throws is told: status 2 for a wrong command line,
/// where `Usage` is what says so, else 1.
template <typename Usage = WrongUsage, typename Work>
int status_of(const std::string& command, const Work& work) {
  try {
    return work();
  } catch (const Usage& error) {
    std::cerr << command << ": " << error.what() << "\nRun '" << command << " --help' for the options.\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << command << ": " << error.what() << "\n";
    return 1;
  }
}

/// Before parsing: torchrun's spelling with underscores (--nproc_per_node) becomes ours. `words` begin with the
/// subcommand's name; those of the program that follows are left alone.
void accept_underscores(const CLI::App& app, std::vector<std::string>& words);

/// A sentence on a word that `command` does not know, an option or the name of a command; with the nearest that it
/// knows.
std::string unknown_word(const CLI::App& command, const std::string& word);

void add_run_command(CLI::App& app, int& status);
void add_train_command(CLI::App& app, int& status);
void add_bench_command(CLI::App& app, int& status);
void add_data_command(CLI::App& app, int& status);
void add_plan_command(CLI::App& app, int& status);
void add_tune_command(CLI::App& app, int& status);
void add_report_command(CLI::App& app, int& status);
void add_evaluate_command(CLI::App& app, int& status);
void add_compare_command(CLI::App& app, int& status);
void add_store_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_lab_command(CLI::App& app, int& status);
void add_completion_command(CLI::App& app, int& status);

}  // namespace tutti::tools
