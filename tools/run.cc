// `tutti run`: starts N ranks of any program on this host, alone or as one node of several.

#include <tutti/tools/commands.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/rank_environment.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace tutti::tools {
namespace {

struct RunArguments {
  std::string nproc = "1";
  NodeArguments nodes;
  bool standalone = false;
  bool no_store = false;
  bool no_label = false;
  bool encrypt = false;
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
  if (arguments.encrypt)
    arguments.launch.extra_environment = [](int) { return std::vector<std::string>{"TUTTI_ENCRYPT=1"}; };
  if (!arguments.standalone) {
    try {
      arguments.launch.nodes = parse_node_options(arguments.nodes);
    } catch (const std::invalid_argument& error) {
      return refuse(error.what());
    }
    if (!arguments.nodes.master_addr.empty()) arguments.launch.master_addr = arguments.nodes.master_addr;
    arguments.launch.master_port = static_cast<std::uint16_t>(arguments.nodes.master_port.value_or(0));
  }
  return launch(arguments.launch);
}

}  // namespace

namespace {

void add_node_options(CLI::App& command, NodeArguments& nodes) {
  command.add_option("--nnodes", nodes.nnodes, "Nodes; each starts its own 'tutti run'. Or MIN:MAX")
      ->capture_default_str();
  command.add_option("--node-rank", nodes.node_rank, "This node's number, with --master-addr");
  command.add_option("--master-addr", nodes.master_addr,
                     "Address of node 0 where the nodes meet; of one node: that the store server binds [127.0.0.1]");
  command
      .add_option("--master-port", nodes.master_port, "Its port [29500]; of one node: 0, a free one, is the default")
      ->check(CLI::Range(0, 65535));
  command.add_option("--rdzv-backend", nodes.rdzv_backend, "c10d (with --rdzv-endpoint) or static (with --node-rank)");
  command.add_option(
      "--rdzv-endpoint", nodes.rdzv_endpoint,
      "HOST[:PORT] where the nodes meet, the same on all; whichever has that address coordinates [port 29400]");
  command.add_option("--rdzv-id", nodes.rdzv_id, "Name of the job, the same on all nodes");
  command.add_option("--rdzv-conf", nodes.rdzv_conf,
                     "KEY=SECONDS,...: join_timeout [600], last_call_timeout [30] for nodes more than MIN, "
                     "keep_alive_interval [0.25], silence_timeout [1.5] after which a node counts as lost");
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
  add_node_options(*command, arguments->nodes);
  command->add_flag("--standalone", arguments->standalone,
                    "One node, 127.0.0.1 and a free port, whatever else is said");
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
  add_interface_option(*command);
  command->add_flag("--verbose", options.verbose, "Say what is started, and with what settings");
  command->callback([arguments, command, &status] { status = run(*arguments, command->remaining()); });
}

}  // namespace tutti::tools
