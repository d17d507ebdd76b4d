#include <tutti/tools/run/own_command.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace tutti::tools {
namespace {

void take_interface(const std::string& wanted) {
  const char* set = std::getenv("TUTTI_IFACE");
  const std::string before = set ? set : "";
  if (!before.empty() && before != wanted)
    throw CLI::ValidationError(
        "--iface", "is " + wanted + ", but the environment has TUTTI_IFACE=" + before + "; drop one of the two");
  ::setenv("TUTTI_IFACE", wanted.c_str(), 1);
}

}  // namespace

void add_interface_option(CLI::App& app) {
  app.add_option_function<std::string>(
      "--iface", take_interface,
      "network between the ranks of several hosts: eth0, 'ib*', 10.1.0.0/16 or an address [$TUTTI_IFACE, else chosen]");
}

}  // namespace tutti::tools
