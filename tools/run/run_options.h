// The options of `tutti run`: those that concern one host (torchrun's, and Tutti's own for output, CPUs and standard
// input), and those that say where the ranks run: as one node of several, on the hosts of a list, or here. Options of
// other commands that start ranks are declared in own_command.h.
#pragma once

#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// As they were written on the command line.
struct LocalArguments {
  std::string redirects = "0", tees = "0";
  std::string rank_filter;
  bool bind = false, no_bind = false;
  std::string stdin_rank = "none";
  bool module = false, no_python = false, run_path = false;
};

/// Options that need no check go into `local` at once.
void add_local_options(CLI::App& command, LocalArguments& arguments, LocalOptions& local);

/// For --help, once all options are there.
void group_run_options(CLI::App& command);

/// Checks them and puts them into `launch`, whose other options must be there already; makes a temporary log folder
/// where streams are to be redirected and none was named. Throws std::invalid_argument with one sentence.
void apply_local_options(const LocalArguments& arguments, LaunchOptions& launch);

/// What is to be executed: `words` themselves, or Python with them (--module; a script that ends in ".py" and cannot be
/// executed itself). Throws std::invalid_argument.
std::vector<std::string> program_command(const LocalArguments& arguments, std::vector<std::string> words);

/// "ignored: --monitor-interval, --start-method": torchrun's options that were given and mean nothing here. "" for
/// none.
std::string ignored_options(const CLI::App& command);

/// Ranks of this host from --nproc-per-node: a number, "cpu", "gpu", or "auto": one for each GPU, else for each CPU.
/// Throws std::invalid_argument.
int parse_nproc(const std::string& text);

/// As they were written on the command line.
struct PlaceArguments {
  NodeArguments nodes;
  std::string hosts, hostfile;
  std::string rsh = "ssh";
  bool standalone = false;
};

void add_place_options(CLI::App& command, PlaceArguments& arguments);

/// Puts the job's nodes into `launch`, and the hosts on which this launcher is to start agents; a scheduler that has
/// started this agent is asked for what was not written. Throws std::invalid_argument with one sentence, and
/// comm::Error for a scheduler's variables.
void settle_place(PlaceArguments& arguments, LaunchOptions& launch);

}  // namespace tutti::tools
