// How --help looks: CLI11's own page, as wide as the terminal, with options in groups.
#pragma once

#include <cstddef>
#include <initializer_list>

namespace CLI {
class App;
}

namespace tutti::tools {

/// For `app` and the commands that it gets from now on: lines of at most `columns`, broken between words.
void use_help_page(CLI::App& app, std::size_t columns);

struct HelpGroup {
  const char* title;
  std::initializer_list<const char*> options;  // "--log-dir"; those that the command does not have are passed over
};

/// Options that no group names stay in CLI11's own, "Options".
void group_options(CLI::App& command, std::initializer_list<HelpGroup> groups);

}  // namespace tutti::tools
