// Options of commands that start ranks of their own, which say the same as an environment variable.
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/tools/run/own_command.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace tutti::tools {
namespace {

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

}  // namespace tutti::tools
