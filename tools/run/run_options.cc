#include <stdlib.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/gpus.h>
#include <tutti/tools/run/label.h>
#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/run_options.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

namespace tutti::tools {
namespace {

std::vector<int> parse_filter(const std::string& text, const std::string& option) {
  const auto ranks = parse_ranges(text);
  if (!ranks) throw std::invalid_argument(option + " is '" + text + "', but must name ranks, as 0,2-5");
  return *ranks;
}

std::string new_log_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "tutti_logs_XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) comm::throw_errno("cannot make a folder for log files, " + path, errno);
  return path;
}

// --label, else what torchrun's variable says.
std::optional<std::string> label_template(const LocalArguments& arguments) {
  const char* torchruns = std::getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (!arguments.label.empty()) return arguments.label;
  return torchruns != nullptr ? std::optional<std::string>(torchruns) : std::nullopt;
}

void add_output_options(CLI::App& command, LocalArguments& arguments) {
  command.add_option("-r,--redirects", arguments.redirects,
                     "Streams that go to log files instead of the terminal: 0 none, 1 standard output, 2 standard "
                     "error, 3 both; or by local rank, as 0:1,1:2");
  command.add_option("-t,--tee", arguments.tees, "Streams that go to log files and to the terminal; values as above");
  command.add_option("--local-ranks-filter", arguments.local_filter, "Show these local ranks' lines only, as 0,2-5");
  command.add_option("--ranks-filter", arguments.rank_filter, "The same by global rank");
  command.add_option("--label", arguments.label,
                     "What begins each line: a text with ${rank}, ${local_rank}, ${node}, ${host}, ${role_name}");
  command.add_flag("--fold", arguments.fold, "Show a line that several ranks print alike once, with all their numbers");
  command.add_flag("--json", arguments.json, "Show each line as a JSON object: time, host, rank, stream, text");
}

void add_ignored_options(CLI::App& command, LocalArguments& arguments) {
  const std::string text = "Accepted for torchrun's sake; changes nothing";
  command.add_option("--monitor-interval", arguments.monitor_interval, text)->check(CLI::NonNegativeNumber);
  command.add_option("--start-method", arguments.start_method, text)
      ->check(CLI::IsMember({"spawn", "fork", "forkserver"}));
  command.add_option("--signals-to-handle", arguments.signals_to_handle, text);
  command.add_option("--numa-binding", arguments.numa_binding, text)
      ->check(CLI::IsMember({"node", "socket", "exclusive", "core-complex"}));
  command.add_option("--logs-specs", arguments.logs_specs, text);
  command.add_option("--event-log-handler", arguments.event_log_handler, text);
  command.add_flag("--torch-store", arguments.torch_store, "PyTorch's store is served without it; changes nothing");
}

}  // namespace

void add_local_options(CLI::App& command, LocalArguments& arguments) {
  add_output_options(command, arguments);
  auto* bind = command.add_flag("--bind", arguments.bind,
                                "Pin each rank to its share of the CPUs [if no other programs wait for them]");
  command.add_flag("--no-bind", arguments.no_bind, "Let all ranks run on all CPUs")->excludes(bind);
  command.add_option("--stdin", arguments.stdin_rank, "The rank that reads standard input; none: all read /dev/null")
      ->capture_default_str();
  command.add_option("--role", arguments.role, "ROLE_NAME of the ranks")->capture_default_str();
  command.add_flag("-m,--module", arguments.module, "PROGRAM is a Python module: python3 -u -m PROGRAM");
  command.add_flag("--no-python", arguments.no_python, "Execute PROGRAM itself, even if it ends in .py");
  command.add_flag("--run-path", arguments.run_path, "PROGRAM is a Python script, whatever its name");
  add_ignored_options(command, arguments);
}

void apply_local_options(const LocalArguments& arguments, LaunchOptions& launch) {
  LocalOptions& local = launch.local;
  local.redirects = StreamMap::parse(arguments.redirects, "--redirects");
  local.tees = StreamMap::parse(arguments.tees, "--tee");
  local.local_filter = parse_filter(arguments.local_filter, "--local-ranks-filter");
  local.rank_filter = parse_filter(arguments.rank_filter, "--ranks-filter");
  local.label = label_template(arguments);
  if (local.label) expand_label(*local.label, {});  // says so if it has no meaning
  local.json = arguments.json;
  local.fold = arguments.fold;
  if (arguments.no_bind) {
    launch.local.why_not_bound = "--no-bind";
  } else {
    divide_among_ranks(launch.local, launch.nproc, arguments.bind);
  }
  local.role = arguments.role;
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
  if (launch.log_dir.empty() && (local.redirects.any() || local.tees.any())) launch.log_dir = new_log_folder();
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

std::vector<std::string> ignored_options(const LocalArguments& arguments) {
  std::vector<std::string> result;
  const auto note = [&](const std::string& value, const std::string& sentence) {
    if (!value.empty()) result.push_back(sentence);
  };
  note(arguments.monitor_interval, "--monitor-interval changes nothing: the end of a rank is seen at once");
  note(arguments.start_method, "--start-method changes nothing: each rank is a program of its own");
  note(arguments.signals_to_handle, "--signals-to-handle changes nothing: all signals are forwarded");
  note(arguments.numa_binding, "--numa-binding changes nothing: ranks are pinned to cores, neighbours in number");
  note(arguments.logs_specs, "--logs-specs changes nothing: see --log-dir, --redirects and --tee");
  note(arguments.event_log_handler, "--event-log-handler changes nothing: this launcher sends no events");
  if (arguments.torch_store) result.push_back("--torch-store changes nothing: PyTorch's store is always served");
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
                                "', but must be a number from 1 up, or auto, cpu or gpu");
  }
  return *value;
}

}  // namespace tutti::tools
