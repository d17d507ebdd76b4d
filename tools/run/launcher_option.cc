#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/tools/run/own_command.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace tutti::tools {
namespace {

void take_launcher(const std::string& name) {
  const char* set = std::getenv("TUTTI_LAUNCHER");
  const std::string before = set ? set : "";
  const bool served = std::getenv("TUTTI_STORE") != nullptr && std::getenv("TORCHELASTIC_USE_AGENT_STORE") != nullptr;
  if (before == "env" && served) return;  // this command's own ranks
  if (!before.empty() && before != name)
    throw CLI::ValidationError(
        "--launcher", "is " + name + ", but the environment has TUTTI_LAUNCHER=" + before + "; drop one of the two");
  ::setenv("TUTTI_LAUNCHER", name.c_str(), 1);
}

}  // namespace

void add_launcher_option(CLI::App& app) {
  std::string names = "who started the ranks: auto, none, env";
  for (const std::string& name : comm::launcher_names()) names += ", " + name;
  app.add_option_function<std::string>("--launcher", take_launcher, names + " [$TUTTI_LAUNCHER, else auto]");
}

}  // namespace tutti::tools
