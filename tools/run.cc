// `tutti run`: starts N ranks of any program on this host.

#include <tutti/tools/commands.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/run_options.h>
#include <tutti/tools/run/run_settings.h>

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
  std::string nnodes = "1";
  bool standalone = false;
  bool no_store = false;
  bool no_label = false;
  bool encrypt = false;
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

// What a user may want to know before the ranks start: contradictions always, every setting under --verbose.
void tell(const Settings& settings, const RunArguments& arguments) {
  const auto say = [](const std::string& text) { std::cerr << "tutti run: " << text << "\n"; };
  for (const std::string& sentence : settings.conflicts) say(sentence);
  if (!arguments.launch.verbose) return;
  for (const std::string& sentence : ignored_options(arguments.local)) say(sentence);
  std::string defaults;
  for (const Setting& setting : settings.all) {
    const std::string text = setting.name + (setting.value.empty() ? "" : " " + setting.value);
    if (setting.source != kDefault) say(text + " (" + setting.source + ")");
    if (setting.source == kDefault && !setting.value.empty()) defaults += (defaults.empty() ? "" : ", ") + text;
  }
  if (!defaults.empty()) say("by default: " + defaults);
}

int run(RunArguments& arguments, const Settings& settings, const std::vector<std::string>& words) {
  if (!words.empty() && words.front().starts_with("-")) return refuse("unknown option " + words.front());
  const std::vector<std::string> command = program_of(words);
  if (command.empty()) return refuse("no program given; write tutti run -n 4 -- PROGRAM ARGUMENTS");
  if (arguments.nnodes != "1" && arguments.nnodes != "1:1") {
    return refuse("--nnodes is " + arguments.nnodes + ", but this version starts ranks on one host only (--nnodes 1)");
  }
  arguments.launch.nproc = parse_nproc(arguments.nproc);
  arguments.launch.command = program_command(arguments.local, command);
  if (arguments.grace_seconds) {
    const std::chrono::milliseconds grace(static_cast<std::int64_t>(*arguments.grace_seconds * 1000));
    arguments.launch.grace = grace;
    arguments.launch.term_grace = grace;
  }
  arguments.launch.store = !arguments.no_store;
  arguments.launch.label = !arguments.no_label;
  if (arguments.encrypt)
    arguments.launch.extra_environment = [](int) { return std::vector<std::string>{"TUTTI_ENCRYPT=1"}; };
  if (arguments.standalone) {
    arguments.launch.master_addr = "127.0.0.1";
    arguments.launch.master_port = 0;
  }
  if (arguments.min_ranks && !arguments.elastic) return refuse("--min-ranks belongs to --elastic");
  if (arguments.elastic) {
    arguments.launch.elastic = ElasticLimits{.min_ranks = arguments.min_ranks.value_or(arguments.launch.nproc)};
  }
  apply_local_options(arguments.local, arguments.launch);
  tell(settings, arguments);
  return launch(arguments.launch);
}

int run_command(CLI::App& command, RunArguments& arguments) {
  try {
    const Settings settings = settle(command);
    return run(arguments, settings, command.remaining());
  } catch (const std::invalid_argument& error) {
    return refuse(error.what());
  }
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
  command->add_option("--nnodes", arguments->nnodes, "Hosts; this version takes 1 only")->capture_default_str();
  command->add_option("--master-addr", options.master_addr, "Address that the store server binds")
      ->capture_default_str();
  command->add_option("--master-port", options.master_port, "Its port; 0: a free one")->capture_default_str();
  command->add_flag("--standalone", arguments->standalone, "127.0.0.1 and a free port, whatever else is said");
  command->add_flag(
      "--no-store", arguments->no_store,
      "Start no store server: for programs whose rank 0 listens on MASTER_PORT itself (PyTorch's env://)");
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
  command->add_flag("--verbose", options.verbose, "Say what is started, and with what settings");
  command->callback([arguments, command, &status] { status = run_command(*command, *arguments); });
}

}  // namespace tutti::tools
