// `tutti run`: starts N ranks of any program on this host, alone or as one node of several.

#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/nodes/remote_launch.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/run_options.h>
#include <tutti/tools/run/run_settings.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
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
  std::string hosts, hostfile;
  std::string rsh = "ssh";
  bool agent = false;
  bool standalone = false;
  bool no_store = false;
  bool no_label = false;
  bool encrypt = false;
  std::string chaos;
  bool elastic = false;
  std::optional<int> min_ranks;
  std::optional<double> grace_seconds;
  LocalArguments local;
  LaunchOptions launch;
};

int refuse(const std::string& sentence) {
  std::cerr << "tutti run: " << sentence << "\nRun 'tutti run --help' for the options.\n";
  return 2;
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

/// "" if the text is understood.
std::string why_no_chaos(const std::string& text) {
  try {
    comm::Chaos{text};
    return {};
  } catch (const comm::Error& error) {
    return error.what();
  }
}

// Complaints of users elsewhere: MASTER_PORT is exported, and another port is used without a word.
void say_unused_port(const LaunchOptions& launch) {
  const char* exported = std::getenv("MASTER_PORT");
  if (exported == nullptr || std::getenv("RANK") != nullptr || launch.nodes) return;
  const std::string port = exported;
  if (port == std::to_string(launch.master_port)) return;
  std::cerr << "tutti run: MASTER_PORT=" << port << " of the environment is not used; write --master-port " << port
            << " to have it\n";
}

// What a user may want to know before the ranks start: contradictions always, every setting under --verbose.
void tell(const Settings& settings, const RunArguments& arguments, bool has_ranks) {
  const auto say = [](const std::string& text) { std::cerr << "tutti run: " << text << "\n"; };
  for (const std::string& sentence : settings.conflicts) say(sentence);
  const LaunchOptions& launch = arguments.launch;
  say_unused_port(launch);
  const bool watched = isatty(STDERR_FILENO) == 1 && launch.nproc > 1;
  if (has_ranks && (watched || launch.verbose)) {
    say(describe_cpus(launch.local, launch.nproc, available_cpus(), std::getenv("OMP_NUM_THREADS")));
  }
  if (!launch.verbose) return;
  for (const std::string& sentence : ignored_options(arguments.local)) say(sentence);
  std::string defaults;
  for (const Setting& setting : settings.all) {
    const std::string text = setting.name + (setting.value.empty() ? "" : " " + setting.value);
    if (setting.source != kDefault) say(text + " (" + setting.source + ")");
    if (setting.source == kDefault && !setting.value.empty()) defaults += (defaults.empty() ? "" : ", ") + text;
  }
  if (!defaults.empty()) say("by default: " + defaults);
}

// The hosts of -H and --hostfile, where one of them is given.
std::vector<HostSlots> hosts_of(const RunArguments& arguments) {
  if (!arguments.hosts.empty() && !arguments.hostfile.empty())
    throw std::invalid_argument("-H and --hostfile are given; one of them says which hosts there are");
  if (!arguments.hosts.empty()) return parse_hosts(arguments.hosts);
  return arguments.hostfile.empty() ? std::vector<HostSlots>() : read_hostfile(arguments.hostfile);
}

// Fills in the job's nodes. Returns the hosts on which this launcher is to start agents; none: it is an agent itself.
// Throws std::invalid_argument for options that make no sense.
std::vector<HostSlots> settle_nodes(RunArguments& arguments) {
  LaunchOptions& options = arguments.launch;
  if (arguments.standalone) return {};
  if (!is_remote_agent() && arguments.hosts.empty() && arguments.hostfile.empty()) ask_scheduler(arguments.nodes);
  if (!arguments.nodes.master_addr.empty()) options.master_addr = arguments.nodes.master_addr;
  options.master_port = static_cast<std::uint16_t>(arguments.nodes.master_port.value_or(0));
  if (is_remote_agent()) {  // the hosts are the launcher's business; a hostfile may exist on its host alone
    options.nodes = launched_node_options(arguments.nodes, 1);
    take_remote_place(*options.nodes, options.nproc);
    return {};
  }
  std::vector<HostSlots> hosts = hosts_of(arguments);
  options.nodes = hosts.empty() ? parse_node_options(arguments.nodes)
                                : launched_node_options(arguments.nodes, static_cast<int>(hosts.size()));
  return hosts;
}

RemoteOptions remote_options(const RunArguments& arguments, const std::vector<HostSlots>& hosts) {
  RemoteOptions remote;
  remote.hosts = hosts;
  remote.rsh = split_rsh(arguments.rsh);
  remote.command = own_command();
  remote.default_slots = arguments.launch.nproc;
  remote.bind_address = arguments.nodes.master_addr;
  return remote;
}

int run(RunArguments& arguments, const Settings& settings, const std::vector<std::string>& words) {
  if (arguments.agent) return become_agent();
  if (!words.empty() && words.front().starts_with("-")) return refuse("unknown option " + words.front());
  const std::vector<std::string> command = program_of(words);
  if (command.empty()) return refuse("no program given; write tutti run -n 4 -- PROGRAM ARGUMENTS");
  arguments.launch.nproc = parse_nproc(arguments.nproc);
  arguments.launch.command = program_command(arguments.local, command);
  if (arguments.grace_seconds) {
    const std::chrono::milliseconds grace(static_cast<std::int64_t>(*arguments.grace_seconds * 1000));
    arguments.launch.grace = grace;
    arguments.launch.term_grace = grace;
  }
  arguments.launch.store = !arguments.no_store;
  arguments.launch.label = !arguments.no_label;
  if (const std::string why = why_no_chaos(arguments.chaos); !why.empty()) return refuse("--chaos: " + why);
  std::vector<std::string> extra;
  if (arguments.encrypt) extra.push_back("TUTTI_ENCRYPT=1");
  if (!arguments.chaos.empty()) extra.push_back("TUTTI_CHAOS=" + arguments.chaos);
  if (!extra.empty()) arguments.launch.extra_environment = [extra](int) { return extra; };
  const std::vector<HostSlots> hosts = settle_nodes(arguments);
  if (!hosts.empty() && arguments.local.stdin_rank != "none") {
    return refuse("--stdin reaches ranks of this host's own launcher; with -H or --hostfile all read /dev/null");
  }
  if (arguments.min_ranks && !arguments.elastic) return refuse("--min-ranks belongs to --elastic");
  if (arguments.elastic) {
    arguments.launch.elastic =
        ElasticLimits{.min_ranks = arguments.min_ranks.value_or(arguments.launch.nodes ? 0 : arguments.launch.nproc)};
  }
  if (hosts.empty()) apply_local_options(arguments.local, arguments.launch);
  tell(settings, arguments, hosts.empty());
  if (hosts.empty()) return launch(arguments.launch);
  return launch_remotely(arguments.launch, remote_options(arguments, hosts));
}

int run_command(CLI::App& command, RunArguments& arguments) {
  try {
    const Settings settings = settle(command);
    return run(arguments, settings, command.remaining());
  } catch (const std::invalid_argument& error) {
    return refuse(error.what());
  } catch (const comm::Error& error) {  // of a scheduler's variables
    return refuse(error.what());
  }
}

void add_host_options(CLI::App& command, RunArguments& arguments) {
  command.add_option("-H,--host", arguments.hosts, "Hosts to start ranks on: node1:4,node2:4 (ranks; else -n of them)");
  command.add_option("--hostfile", arguments.hostfile,
                     "File of hosts, one a line: 'node1 slots=4' or 'node1:4'; PBS_NODEFILE will do");
  command
      .add_option("--rsh", arguments.rsh,
                  "Command that starts a program on a host, called as ssh is: RSH HOST COMMAND-LINE")
      ->capture_default_str();
  command.add_flag("--agent", arguments.agent)->group("");  // what -H runs on the other hosts
}

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
  command
      ->add_option("-n,--nproc-per-node", arguments->nproc,
                   "Ranks to start; cpu or gpu: one for each; auto: for each GPU, else CPU")
      ->capture_default_str();
  add_node_options(*command, arguments->nodes);
  add_host_options(*command, *arguments);
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
  command->add_flag("--elastic", arguments->elastic,
                    "Replace a rank that is lost and let the others run on (tutti train can); --max-restarts so many "
                    "times. A program that does not take part is started again as a whole");
  command->add_option("--min-ranks", arguments->min_ranks,
                      "--elastic: when restarts are used up, go on with fewer ranks, but not below this [all]");
  command->add_option("--log-dir", options.log_dir,
                      "Folder for log files of each rank: what --redirects and --tee say; without them all of it, "
                      "instead of the terminal");
  add_local_options(*command, arguments->local);
  command
      ->add_option("--grace", arguments->grace_seconds,
                   "Seconds until ranks that are stopped get SIGKILL [30 after a SIGTERM to the launcher, else 2]")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_flag("--no-label", arguments->no_label, "Do not begin lines with the rank that printed them");
  command->add_flag("--encrypt", arguments->encrypt, "TUTTI_ENCRYPT=1: Tutti's TCP connections between ranks use TLS");
  add_interface_option(*command);
  command->add_option("--chaos", arguments->chaos,
                      "TUTTI_CHAOS: what goes wrong on purpose at a collective of Tutti's ranks (from 0), for example "
                      "kill:rank=1,step=20; also freeze, slow:factor=F, delay:ms=M");
  command->add_flag("--verbose", options.verbose, "Say what is started, and with what settings");
  command->callback([arguments, command, &status] { status = run_command(*command, *arguments); });
}

}  // namespace tutti::tools
