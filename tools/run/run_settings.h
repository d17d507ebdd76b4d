// Where each setting of `tutti run` comes from: the command line, torchrun's PET_ variables, or the default.
#pragma once

#include <tutti/tools/run/launcher.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

inline constexpr char kDefault[] = "default";

struct Setting {
  std::string name;    // "--max-restarts"
  std::string value;   // as written
  std::string source;  // "command line", "PET_MAX_RESTARTS", kDefault
};

struct Settings {
  std::vector<Setting> all;
  std::vector<std::string> conflicts;  // a sentence for each option whose variable says something else
};

/// To be called when the command line has been parsed: options that it has not given get the value of PET_<NAME>, as
/// in torchrun; where both speak, the command line wins. Throws std::invalid_argument naming a variable whose value the
/// option does not take.
Settings settle(CLI::App& command);

/// Before parsing: torchrun's spelling with underscores (--nproc_per_node) becomes ours. `words` begin with the
/// subcommand's name; those of the program that follows are left alone.
void accept_underscores(const CLI::App& app, std::vector<std::string>& words);

/// Writes to standard error what a user may want to know before the ranks start: contradictions always, every setting
/// and what is `ignored` with launch.verbose; how the CPUs are divided, if this launcher `has_ranks`, on a terminal
/// too.
void tell_settings(const Settings& settings, const LaunchOptions& launch, const std::vector<std::string>& ignored,
                   bool has_ranks);

}  // namespace tutti::tools
