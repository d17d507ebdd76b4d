// `tutti run`: starts N ranks of any program on this host, alone or as one node of several.

#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/help.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/run_options.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
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
  PlaceArguments place;
  bool agent = false;
  std::string chaos;
  bool elastic = false;
  std::optional<int> min_ranks;
  LocalArguments local;
  LaunchOptions launch;
};

int refuse(const std::string& sentence) {
  std::cerr << "tutti run: " << sentence << "\nRun 'tutti run --help' for the options.\n";
  return 2;
}

// What `settle` found, in sentences.
struct Settings {
  std::vector<std::string> conflicts;  // one for each option whose variable says something else
  std::vector<std::string> given;      // "--max-restarts 2 (PET_MAX_RESTARTS)"
  std::string defaults;                // "--nnodes 1, --rsh ssh"
};

std::string variable_of(const std::string& name) {
  std::string result = "PET_" + name;
  for (char& c : result) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

void take(CLI::Option& option, const std::string& variable, const std::string& value) {
  try {
    option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    throw std::invalid_argument(variable + "='" + value + "' in the environment: " + error.what());
  }
}

std::string value_of(const CLI::Option& option) {
  if (option.count() == 0) return option.get_default_str();
  const std::string text = CLI::detail::join(option.results(), " ");
  return text == "true" ? "" : text;  // a flag
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

// Options that the command line has not given get the value of PET_<NAME>, as in torchrun; where both speak, the
// command line wins. Throws std::invalid_argument naming a variable whose value the option does not take.
Settings settle(CLI::App& command) {
  Settings result;
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option == command.get_help_ptr()) continue;
    const std::string& name = option->get_lnames().front();
    const std::string variable = variable_of(name);
    const char* found = std::getenv(variable.c_str());
    std::string source = option->count() > 0 ? "command line" : "";
    if (found != nullptr && *found != '\0') {
      if (option->count() == 0) {
        take(*option, variable, found);
        source = variable;
      } else if (value_of(*option) != found && !(value_of(*option).empty() && std::string(found) == "1")) {
        result.conflicts.push_back("--" + name + " " + value_of(*option) + " of the command line wins over " +
                                   variable + "=" + found + " in the environment");
      }
    }
    const std::string text = "--" + name + (value_of(*option).empty() ? "" : " " + value_of(*option));
    if (!source.empty()) result.given.push_back(text + " (" + source + ")");
    if (source.empty() && !value_of(*option).empty()) result.defaults += (result.defaults.empty() ? "" : ", ") + text;
  }
  return result;
}

// What a user may want to know before the ranks start: contradictions always, every setting and what is `ignored` with
// launch.verbose; how the CPUs are divided, if this launcher `has_ranks`, on a terminal too.
void tell_settings(const Settings& settings, const LaunchOptions& launch, const std::string& ignored, bool has_ranks) {
  const auto say = [](const std::string& text) { std::cerr << "tutti run: " << text << "\n"; };
  for (const std::string& sentence : settings.conflicts) say(sentence);
  say_unused_port(launch);
  const bool watched = isatty(STDERR_FILENO) == 1 && launch.nproc > 1;
  if (has_ranks && (watched || launch.verbose)) {
    say(describe_cpus(launch.local, launch.nproc, available_cpus(), std::getenv("OMP_NUM_THREADS")));
  }
  if (!launch.verbose) return;
  if (!ignored.empty()) say(ignored);
  for (const std::string& setting : settings.given) say(setting);
  if (!settings.defaults.empty()) say("by default: " + settings.defaults);
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

// What does not depend on where the ranks run. Throws std::invalid_argument.
void settle_launch(RunArguments& arguments, const std::vector<std::string>& command) {
  LaunchOptions& launch = arguments.launch;
  launch.nproc = parse_nproc(arguments.nproc);
  launch.command = program_command(arguments.local, command);
  try {
    comm::Chaos{arguments.chaos};
  } catch (const comm::Error& error) {
    throw std::invalid_argument(std::string("--chaos: ") + error.what());
  }
  if (!arguments.chaos.empty()) launch.environment.push_back("TUTTI_CHAOS=" + arguments.chaos);
  if (arguments.min_ranks && !arguments.elastic) throw std::invalid_argument("--min-ranks belongs to --elastic");
  if (arguments.elastic) launch.elastic = ElasticLimits{.min_ranks = arguments.min_ranks.value_or(launch.nproc)};
}

int run(RunArguments& arguments, const CLI::App& options, const Settings& settings) {
  const std::vector<std::string> words = options.remaining();
  if (arguments.agent) return become_agent();
  if (!words.empty() && words.front().starts_with("-")) return refuse(unknown_word(options, words.front()));
  const std::vector<std::string> command = program_of(words);
  if (command.empty()) return refuse("no program given; write tutti run -n 4 -- PROGRAM ARGUMENTS");
  settle_launch(arguments, command);
  settle_place(arguments.place, arguments.launch);
  const bool all_of_nodes = arguments.elastic && arguments.launch.nodes && !arguments.min_ranks;
  if (all_of_nodes) arguments.launch.elastic->min_ranks = 0;
  const bool remote = arguments.launch.remote.has_value();
  if (!remote) {
    apply_local_options(arguments.local, arguments.launch);
  } else if (arguments.local.stdin_rank != "none") {
    return refuse("--stdin reaches ranks of this host's own launcher; with -H or --hostfile all read /dev/null");
  }
  tell_settings(settings, arguments.launch, ignored_options(options), !remote);
  return launch(arguments.launch);
}

int run_command(CLI::App& command, RunArguments& arguments) {
  try {
    const Settings settings = settle(command);
    return run(arguments, command, settings);
  } catch (const std::invalid_argument& error) {
    return refuse(error.what());
  } catch (const comm::Error& error) {  // of a scheduler's variables
    return refuse(error.what());
  }
}

}  // namespace

void accept_underscores(const CLI::App& app, std::vector<std::string>& words) {
  const auto named =
      app.get_subcommands([&](const CLI::App* c) { return !words.empty() && c->get_name() == words[0]; });
  const CLI::App* command = named.empty() ? nullptr : named.front();
  for (std::size_t i = 1; command != nullptr && i < words.size(); ++i) {
    std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-' || word == "--") return;
    const std::size_t end = std::min(word.find('='), word.size());
    if (word[1] == '-') std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
    const bool is_short = word[1] != '-';
    const CLI::Option* option = command->get_option_no_throw(is_short ? word.substr(0, 2) : word.substr(0, end));
    if (option == nullptr) return;
    const bool has_value = end < word.size() || (is_short && word.size() > 2);
    if (!has_value && option->get_items_expected_max() > 0) ++i;
  }
}

void add_run_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Start N ranks of a program on this host, as torchrun does");
  command->footer("Example: tutti run -n 4 -- python3 script.py --epochs 3");
  command->prefix_command();
  LaunchOptions& options = arguments->launch;
  command
      ->add_option("-n,--nproc-per-node,--nproc", arguments->nproc,
                   "Ranks to start; cpu or gpu: one for each; auto: for each GPU, else CPU")
      ->capture_default_str();
  add_place_options(*command, arguments->place);
  command->add_flag("--agent", arguments->agent)->group("");  // what -H runs on the other hosts
  command->add_flag_callback(
      "--no-store", [&options] { options.store = false; },
      "Start no store servers: for programs whose rank 0 listens on MASTER_PORT itself. Else PyTorch's store is there");
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
  add_local_options(*command, arguments->local, options.local);
  command
      ->add_option_function<double>(
          "--grace",
          [&options](const double& seconds) {
            options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
            options.term_grace = options.grace;
          },
          "Seconds until ranks that are stopped get SIGKILL [30 after a SIGTERM to the launcher, else 2]")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_flag_callback(
      "--no-label", [&options] { options.label = false; }, "Do not begin lines with the rank that printed them");
  command->add_flag_callback(
      "--encrypt", [&options] { options.environment.push_back("TUTTI_ENCRYPT=1"); },
      "TUTTI_ENCRYPT=1: Tutti's TCP connections between ranks use TLS");
  add_interface_option(*command);
  command->add_option("--chaos", arguments->chaos,
                      "TUTTI_CHAOS: what goes wrong on purpose at a collective of Tutti's ranks (from 0), for example "
                      "kill:rank=1,step=20; also freeze, slow:factor=F, delay:ms=M");
  command->add_flag("--verbose", options.verbose, "Say what is started, and with what settings");
  group_run_options(*command);
  command->callback([arguments, command, &status] { status = run_command(*command, *arguments); });
}

}  // namespace tutti::tools
