#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/run_settings.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>

namespace tutti::tools {
namespace {

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

}  // namespace

Settings settle(CLI::App& command) {
  Settings result;
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option == command.get_help_ptr()) continue;
    const std::string& name = option->get_lnames().front();
    const std::string variable = variable_of(name);
    const char* found = std::getenv(variable.c_str());
    std::string source = option->count() > 0 ? "command line" : kDefault;
    if (found != nullptr && *found != '\0') {
      if (option->count() == 0) {
        take(*option, variable, found);
        source = variable;
      } else if (value_of(*option) != found && !(value_of(*option).empty() && std::string(found) == "1")) {
        result.conflicts.push_back("--" + name + " " + value_of(*option) + " of the command line wins over " +
                                   variable + "=" + found + " in the environment");
      }
    }
    result.all.push_back({"--" + name, value_of(*option), source});
  }
  return result;
}

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

void tell_settings(const Settings& settings, const LaunchOptions& launch, const std::vector<std::string>& ignored,
                   bool has_ranks) {
  const auto say = [](const std::string& text) { std::cerr << "tutti run: " << text << "\n"; };
  for (const std::string& sentence : settings.conflicts) say(sentence);
  say_unused_port(launch);
  const bool watched = isatty(STDERR_FILENO) == 1 && launch.nproc > 1;
  if (has_ranks && (watched || launch.verbose)) {
    say(describe_cpus(launch.local, launch.nproc, available_cpus(), std::getenv("OMP_NUM_THREADS")));
  }
  if (!launch.verbose) return;
  for (const std::string& sentence : ignored) say(sentence);
  std::string defaults;
  for (const Setting& setting : settings.all) {
    const std::string text = setting.name + (setting.value.empty() ? "" : " " + setting.value);
    if (setting.source != kDefault) say(text + " (" + setting.source + ")");
    if (setting.source == kDefault && !setting.value.empty()) defaults += (defaults.empty() ? "" : ", ") + text;
  }
  if (!defaults.empty()) say("by default: " + defaults);
}

}  // namespace tutti::tools
