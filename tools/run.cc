// `tutti run`: starts N ranks of any program on this host.

#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/rank_environment.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

namespace tutti::tools {
namespace {

struct RunArguments {
  std::string nproc = "1";
  std::string nnodes = "1";
  bool standalone = false;
  bool no_store = false;
  bool no_label = false;
  bool encrypt = false;
  std::string chaos;
  std::optional<double> grace_seconds;
  LaunchOptions launch;
};

int refuse(const std::string& sentence) {
  std::cerr << "tutti run: " << sentence << "\nRun 'tutti run --help' for the options.\n";
  return 2;
}

// Ranks per node from "auto" or a number; nothing if it is neither.
std::optional<int> parse_nproc(const std::string& text) {
  if (text == "auto" || text == "cpu") return available_cpus();
  int value = 0;
  if (!CLI::detail::lexical_cast(text, value) || value < 1) return std::nullopt;
  return value;
}

// The program and its arguments: what follows the first "--", or else the first word that is no option of ours.
std::vector<std::string> program_of(std::vector<std::string> words) {
  const auto mark = std::find(words.begin(), words.end(), kProgramFollows);
  if (mark == words.begin() && mark != words.end()) {
    words.erase(mark);
  } else if (mark != words.end()) {
    *mark = "--";  // the program's own
  }
  return words;
}

int run(RunArguments& arguments, const std::vector<std::string>& words) {
  if (!words.empty() && words.front().starts_with("-")) return refuse("unknown option " + words.front());
  const std::vector<std::string> command = program_of(words);
  if (command.empty()) return refuse("no program given; write tutti run -n 4 -- PROGRAM ARGUMENTS");
  if (arguments.nnodes != "1" && arguments.nnodes != "1:1") {
    return refuse("--nnodes is " + arguments.nnodes + ", but this version starts ranks on one host only (--nnodes 1)");
  }
  const std::optional<int> nproc = parse_nproc(arguments.nproc);
  if (!nproc) return refuse("--nproc-per-node is '" + arguments.nproc + "', but must be a number from 1 up, or auto");
  arguments.launch.nproc = *nproc;
  arguments.launch.command = command;
  if (arguments.grace_seconds) {
    const std::chrono::milliseconds grace(static_cast<std::int64_t>(*arguments.grace_seconds * 1000));
    arguments.launch.grace = grace;
    arguments.launch.term_grace = grace;
  }
  arguments.launch.store = !arguments.no_store;
  arguments.launch.label = !arguments.no_label;
  std::vector<std::string> extra;
  if (arguments.encrypt) extra.push_back("TUTTI_ENCRYPT=1");
  if (!arguments.chaos.empty()) extra.push_back("TUTTI_CHAOS=" + arguments.chaos);
  try {
    comm::Chaos{arguments.chaos};
  } catch (const comm::Error& error) {
    return refuse("--chaos: " + std::string(error.what()));
  }
  if (!extra.empty()) arguments.launch.extra_environment = [extra](int) { return extra; };
  if (arguments.standalone) {
    arguments.launch.master_addr = "127.0.0.1";
    arguments.launch.master_port = 0;
  }
  return launch(arguments.launch);
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Start N ranks of a program on this host, as torchrun does");
  command->footer("Example: tutti run -n 4 -- python3 script.py --epochs 3");
  command->prefix_command();
  LaunchOptions& options = arguments->launch;
  command->add_option("-n,--nproc-per-node", arguments->nproc, "Ranks to start, or auto: one for each CPU")
      ->capture_default_str();
  command->add_option("--nnodes", arguments->nnodes, "Hosts; this version takes 1 only")->capture_default_str();
  command->add_option("--master-addr", options.master_addr, "Address that the store server binds")
      ->capture_default_str();
  command->add_option("--master-port", options.master_port, "Its port; 0: a free one")->capture_default_str();
  command->add_flag("--standalone", arguments->standalone, "127.0.0.1 and a free port, whatever else is said");
  command->add_flag(
      "--no-store", arguments->no_store,
      "Start no store server: for programs whose rank 0 listens on MASTER_PORT itself (PyTorch's env://)");
  command->add_flag("--torch-store", options.torch_store,
                    "The launcher's store is one for PyTorch's TCPStore clients (no secret: who reaches the port may "
                    "write to it) in place of Tutti's own; see also --no-store");
  command->add_option("--max-restarts", options.max_restarts, "After a failure start all ranks again, so many times")
      ->capture_default_str();
  command->add_option("--log-dir", options.log_dir,
                      "Folder for one file of output for each rank (instead of the terminal)");
  command->add_flag("--tee", options.tee, "With --log-dir: show the output too");
  command
      ->add_option("--grace", arguments->grace_seconds,
                   "Seconds until ranks that are stopped get SIGKILL [30 after a SIGTERM to the launcher, else 2]")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_flag("--no-label", arguments->no_label, "Do not begin lines with the rank that printed them");
  command->add_flag("--encrypt", arguments->encrypt, "TUTTI_ENCRYPT=1: Tutti's TCP connections between ranks use TLS");
  command->add_option("--chaos", arguments->chaos,
                      "TUTTI_CHAOS: what goes wrong on purpose at a collective of Tutti's ranks (from 0), for example "
                      "kill:rank=1,step=20; also freeze, slow:factor=F, delay:ms=M");
  command->add_flag("--verbose", options.verbose, "Say what is started, and with what settings");
  command->callback([arguments, command, &status] { status = run(*arguments, command->remaining()); });
}

}  // namespace tutti::tools
