#include <stdlib.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/tools/help.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/run_options.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace tutti::tools {
namespace {

// Of torchrun's options those that mean nothing here: ranks are programs of their own, whose end is seen at once; all
// signals are forwarded; ranks are pinned to neighbouring cores; there is one kind of log, there are
// no events, and lines are chosen by the number that a rank has in the world.
constexpr const char* kIgnored[] = {"--monitor-interval",  "--start-method", "--signals-to-handle",
                                    "--numa-binding",      "--logs-specs",   "--event-log-handler",
                                    "--local-ranks-filter"};

// Entries of CUDA_VISIBLE_DEVICES if it is set, else NVIDIA's devices in /dev; asks no driver.
int visible_gpus() {
  int count = 0;
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream entries(list);
    // As CUDA does: an entry that names no device ends the list.
    for (std::string entry; std::getline(entries, entry, ',') && !entry.empty() && entry[0] != '-';) ++count;
    return count;
  }
  constexpr std::string_view kPrefix = "nvidia";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && parse_number(std::string_view(name).substr(kPrefix.size()))) ++count;
  }
  return count;
}

// A bit for each Stream.
int parse_streams(const std::string& text, const std::string& option) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '3') return text[0] - '0';
  throw std::invalid_argument(option + " is '" + text +
                              "', but must be 0 (none), 1 (standard output), 2 (standard error) or 3 (both)");
}

std::string new_log_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "tutti_logs_XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) comm::throw_errno("cannot make a folder for log files, " + path, errno);
  return path;
}

void add_output_options(CLI::App& command, LocalArguments& arguments, LocalOptions& local) {
  command.add_option("-r,--redirects", arguments.redirects,
                     "Streams that go to log files instead of the terminal: 0 none, 1 standard output, 2 standard "
                     "error, 3 both");
  command.add_option("-t,--tee", arguments.tees, "Streams that go to log files and to the terminal; values as above");
  command.add_option("--ranks-filter", arguments.rank_filter, "Show these ranks' lines only, as 0,2-5");
  command
      .add_option("--label", local.label,
                  "What begins each line: rank, as [rank 1], or host, as [node7/1] [rank; of several nodes host]")
      ->check(CLI::IsMember({"rank", "host"}));
}

// The hosts of -H and --hostfile, where one of them is given.
std::vector<HostSlots> hosts_of(const PlaceArguments& arguments) {
  if (!arguments.hosts.empty() && !arguments.hostfile.empty())
    throw std::invalid_argument("-H and --hostfile are given; one of them says which hosts there are");
  if (!arguments.hosts.empty()) return parse_hosts(arguments.hosts);
  return arguments.hostfile.empty() ? std::vector<HostSlots>() : read_hostfile(arguments.hostfile);
}

// Sets the variable for this process and its ranks. Another value there is an error.
void set_variable(const char* variable, const std::string& option, const std::string& value) {
  const char* set = std::getenv(variable);
  const std::string before = set ? set : "";
  if (!before.empty() && before != value)
    throw CLI::ValidationError(
        option, "is " + value + ", but the environment has " + variable + "=" + before + "; drop one of the two");
  ::setenv(variable, value.c_str(), 1);
}

void take_launcher(const std::string& name) {
  const char* set = std::getenv("TUTTI_LAUNCHER");
  const bool served = std::getenv("TUTTI_STORE") != nullptr && std::getenv("TORCHELASTIC_USE_AGENT_STORE") != nullptr;
  if (set != nullptr && std::string(set) == "env" && served) return;  // this command's own ranks
  set_variable("TUTTI_LAUNCHER", "--launcher", name);
}

}  // namespace

void add_own_ranks_options(CLI::App& app, std::optional<std::int64_t>& nproc) {
  app.add_option("-n,--nproc", nproc, "ranks to start on this host, when no launcher has done so");
  std::string names = "who started the ranks: auto, none, env";
  for (const std::string& name : comm::launcher_names()) names += ", " + name;
  app.add_option_function<std::string>("--launcher", take_launcher, names + " [$TUTTI_LAUNCHER, else auto]");
  add_interface_option(app);
}

void add_interface_option(CLI::App& app) {
  app.add_option_function<std::string>(
      "--iface", [](const std::string& wanted) { set_variable("TUTTI_IFACE", "--iface", wanted); },
      "network between the ranks of several hosts: eth0, 'ib*', 10.1.0.0/16 or an address [$TUTTI_IFACE, else chosen]");
}

void add_columns_option(CLI::App& app, std::size_t& columns) { app.add_option("--columns", columns)->group(""); }

void add_timeout_option(CLI::App& app, std::chrono::milliseconds& timeout) {
  const auto take = [&timeout](const double& seconds) {
    if (!(seconds >= 0.001 && seconds <= 1e9))
      throw CLI::ValidationError("--timeout", "must be between 0.001 and 1e9 seconds");
    timeout = std::chrono::milliseconds(std::llround(seconds * 1000));
  };
  app.add_option_function<double>("--timeout", take, "seconds until a rank that does not answer is an error")
      ->default_str(std::to_string(timeout.count() / 1000));
}

void add_local_options(CLI::App& command, LocalArguments& arguments, LocalOptions& local) {
  add_output_options(command, arguments, local);
  auto* bind = command.add_flag("--bind", arguments.bind,
                                "Pin each rank to its share of the CPUs [if no other programs wait for them]");
  command.add_flag("--no-bind", arguments.no_bind, "Let all ranks run on all CPUs")->excludes(bind);
  command
      .add_option("--stdin", arguments.stdin_rank,
                  "The rank that reads standard input, a file or a pipe; none: all read /dev/null")
      ->capture_default_str();
  command.add_option("--role", local.role, "ROLE_NAME of the ranks")->capture_default_str();
  command.add_flag("-m,--module", arguments.module, "PROGRAM is a Python module: python3 -u -m PROGRAM");
  command.add_flag("--no-python", arguments.no_python, "Execute PROGRAM itself, even if it ends in .py");
  command.add_flag("--run-path", arguments.run_path, "PROGRAM is a Python script, whatever its name");
  for (const char* name : kIgnored)
    command.add_option_function<std::string>(
        name, [](const std::string&) {}, "Ignored; torchrun has it");
}

void group_run_options(CLI::App& command) {
  group_options(
      command,
      {{"Several nodes",
        {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id",
         "--rdzv-conf", "--host", "--hostfile", "--rsh", "--standalone", "--iface"}},
       {"Lost ranks and the end", {"--max-restarts", "--elastic", "--min-ranks", "--grace", "--chaos"}},
       {"Output", {"--log-dir", "--redirects", "--tee", "--ranks-filter", "--label", "--no-label", "--verbose"}},
       {"Program", {"--stdin", "--bind", "--no-bind", "--role", "--module", "--no-python", "--run-path"}}});
  for (const char* name : kIgnored) command.get_option(name)->group("Options of torchrun that have no meaning here");
}

void apply_local_options(const LocalArguments& arguments, LaunchOptions& launch) {
  LocalOptions& local = launch.local;
  local.redirects = parse_streams(arguments.redirects, "--redirects");
  local.tees = parse_streams(arguments.tees, "--tee");
  const auto shown = parse_ranges(arguments.rank_filter);
  if (!shown)
    throw std::invalid_argument("--ranks-filter is '" + arguments.rank_filter + "', but must name ranks, as 0,2-5");
  local.rank_filter = *shown;
  if (arguments.no_bind) {
    launch.local.why_not_bound = "--no-bind";
  } else {
    divide_among_ranks(launch.local, launch.nproc, arguments.bind);
  }
  if (arguments.stdin_rank != "none") {
    local.stdin_rank = parse_number(arguments.stdin_rank);
    if (!local.stdin_rank) {
      throw std::invalid_argument("--stdin is '" + arguments.stdin_rank + "', but must be a rank, or none");
    }
    if (!launch.nodes && *local.stdin_rank >= launch.nproc) {
      throw std::invalid_argument("--stdin is " + arguments.stdin_rank + ", but the last rank is " +
                                  std::to_string(launch.nproc - 1));
    }
  }
  if (launch.log_dir.empty() && (local.redirects != 0 || local.tees != 0)) {
    launch.log_dir = new_log_folder();
    std::cerr << "tutti run: log files are in " << launch.log_dir << "\n";
  }
}

std::vector<std::string> program_command(const LocalArguments& arguments, std::vector<std::string> words) {
  if (arguments.module && arguments.no_python)
    throw std::invalid_argument("--module and --no-python exclude each other");
  const std::string& program = words.front();
  const bool script = arguments.run_path || (program.ends_with(".py") && std::filesystem::exists(program) &&
                                             ::access(program.c_str(), X_OK) != 0 && !arguments.no_python);
  if (!script && !arguments.module) return words;
  const char* python = std::getenv("PYTHON_EXEC");
  std::vector<std::string> command{python != nullptr ? python : "python3", "-u"};
  if (arguments.module) command.emplace_back("-m");
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::string ignored_options(const CLI::App& command) {
  std::string result;
  for (const char* name : kIgnored) {
    if (command.count(name) > 0) result += (result.empty() ? "ignored: " : ", ") + std::string(name);
  }
  return result;
}

int parse_nproc(const std::string& text) {
  if (text == "gpu") {
    if (const int gpus = visible_gpus(); gpus > 0) return gpus;
    throw std::invalid_argument("--nproc-per-node is gpu, but this host shows no GPU");
  }
  if (text == "auto") {
    const int gpus = visible_gpus();
    return gpus > 0 ? gpus : available_cpus();
  }
  if (text == "cpu") return available_cpus();
  const auto value = parse_number(text);
  if (!value || *value < 1) {
    throw std::invalid_argument("--nproc-per-node is '" + text +
                                "', but must be a number from 1 up, or auto, cpu or gpu" +
                                (text == "p" ? "; mpirun's -np is -n here" : ""));
  }
  return *value;
}

void add_place_options(CLI::App& command, PlaceArguments& arguments) {
  NodeArguments& nodes = arguments.nodes;
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
  command.add_option("-H,--host", arguments.hosts, "Hosts to start ranks on: node1:4,node2:4 (ranks; else -n of them)");
  command.add_option("--hostfile", arguments.hostfile,
                     "File of hosts, one a line: 'node1 slots=4' or 'node1:4'; PBS_NODEFILE will do");
  command
      .add_option("--rsh", arguments.rsh,
                  "Command that starts a program on a host, called as ssh is: RSH HOST COMMAND-LINE")
      ->capture_default_str();
  command.add_flag("--standalone", arguments.standalone, "One node, 127.0.0.1 and a free port, whatever else is said");
}

void settle_place(PlaceArguments& arguments, LaunchOptions& launch) {
  if (arguments.standalone) return;
  if (!is_remote_agent() && arguments.hosts.empty() && arguments.hostfile.empty())
    ask_scheduler(arguments.nodes, comm::process_environment());
  if (!arguments.nodes.master_addr.empty()) launch.master_addr = arguments.nodes.master_addr;
  launch.master_port = static_cast<std::uint16_t>(arguments.nodes.master_port.value_or(0));
  if (is_remote_agent()) {  // the hosts are the launcher's business; a hostfile may exist on its host alone
    launch.nodes = launched_node_options(arguments.nodes, 1);
    return take_remote_place(*launch.nodes, launch.nproc);
  }
  const std::vector<HostSlots> hosts = hosts_of(arguments);
  if (hosts.empty()) {
    launch.nodes = parse_node_options(arguments.nodes);
    return;
  }
  launch.nodes = launched_node_options(arguments.nodes, static_cast<int>(hosts.size()));
  launch.remote = RemoteOptions{hosts, split_rsh(arguments.rsh), arguments.nodes.master_addr};
}

}  // namespace tutti::tools
