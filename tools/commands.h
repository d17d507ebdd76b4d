// The subcommands of `tutti`, one file each. Every function adds its subcommand to `app`; the subcommand's callback
// sets `status` to the program's exit status: 0 done, 1 failed, 2 wrong usage. `status` must live until parsing has
// ended.
#pragma once

namespace CLI {
class App;
}

namespace tutti::tools {

/// What main() puts in the place of the first "--". CLI11 2.1 hands that word to the app above the subcommand, where it
/// ends as an error; `tutti run` must see it, for what follows is another program's command line.
inline constexpr char kProgramFollows[] = "\x1e--";

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

}  // namespace tutti::tools
