#include <tutti/comm/base/terminal.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/tools/run/own_command.h>

#include <fstream>
#include <stdexcept>
#include <utility>

namespace tutti::tools {

std::optional<std::string> world_size_from_launcher() {
  const comm::Environment environment = comm::process_environment();
  const std::string chosen = environment("TUTTI_LAUNCHER").value_or("auto");
  if (chosen == "none") return std::nullopt;
  if (chosen == "auto" || chosen == "env") {
    const auto world_size = environment("WORLD_SIZE");
    if (environment("RANK") && world_size) return world_size;
    if (chosen == "env") return std::nullopt;
  }
  const auto place = comm::find_launcher(chosen, environment).place;
  if (!place || place->world_size == 1) return std::nullopt;
  return std::to_string(place->world_size);
}

std::string nproc_objection(std::optional<std::int64_t> nproc, bool ranks_change) {
  if (!nproc) return {};
  const std::string text = std::to_string(*nproc);
  if (*nproc < 1 || *nproc > 4096) return "--nproc " + text + ": must be between 1 and 4096";
  const auto launched = world_size_from_launcher();
  if (!launched || ranks_change || *launched == text) return {};
  return "--nproc " + text + ", but a launcher has started WORLD_SIZE=" + *launched + " ranks; leave --nproc out";
}

std::vector<std::string> own_command() {
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string word; std::getline(words, word, '\0');) command.push_back(word);
  if (command.empty()) throw std::runtime_error("cannot read this program's own command from /proc/self/cmdline");
  command.front() = this_program();
  return command;
}

LaunchOptions launch_of_own_ranks(int nproc, std::string name, int live) {
  LaunchOptions options;
  options.nproc = nproc;
  options.command = own_command();
  if (const std::size_t columns = comm::terminal_columns(live); columns > 0)
    options.command.push_back("--columns=" + std::to_string(columns));
  options.label = false;
  options.name = std::move(name);
  divide_among_ranks(options.local, nproc);
  return options;
}

}  // namespace tutti::tools
