// The options of `tutti run` that concern one host: torchrun's, and Tutti's own for output, CPUs and standard input.
// Those about nodes stand in nodes/node_options.h.
#pragma once

#include <tutti/tools/run/launcher.h>

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// As they were written on the command line.
struct LocalArguments {
  std::string redirects = "0", tees = "0";
  std::string local_filter, rank_filter;
  std::string label;
  bool json = false, fold = false;
  bool bind = false, no_bind = false;
  std::string stdin_rank = "none";
  std::string role = "default";
  bool module = false, no_python = false, run_path = false;
  // Accepted because torchrun has them, or this launcher had; see ignored_options.
  std::string monitor_interval, start_method, signals_to_handle, numa_binding, logs_specs, event_log_handler;
  bool torch_store = false;
};

void add_local_options(CLI::App& command, LocalArguments& arguments);

/// Checks them and puts them into `launch`, whose other options must be there already; makes a temporary log folder
/// where streams are to be redirected and none was named. Throws std::invalid_argument with one sentence.
void apply_local_options(const LocalArguments& arguments, LaunchOptions& launch);

/// What is to be executed: `words` themselves, or Python with them (--module; a script that ends in ".py" and cannot be
/// executed itself). Throws std::invalid_argument.
std::vector<std::string> program_command(const LocalArguments& arguments, std::vector<std::string> words);

/// A sentence for each option that was accepted and changes nothing.
std::vector<std::string> ignored_options(const LocalArguments& arguments);

/// Ranks of this host from --nproc-per-node: a number, "cpu", "gpu", or "auto": one for each GPU, else for each CPU.
/// Throws std::invalid_argument.
int parse_nproc(const std::string& text);

}  // namespace tutti::tools
