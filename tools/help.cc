#include <tutti/comm/base/terminal.h>
#include <tutti/tools/help.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace tutti::tools {
namespace {

/// Names stand in a column at the left, which is narrower on a narrow terminal; a longer name has a line of its own.
class HelpPage : public CLI::Formatter {
 public:
  explicit HelpPage(std::size_t columns) : columns_(columns) { column_width(std::min<std::size_t>(30, columns / 3)); }

  // CLI11 puts up to three ends of lines between the parts.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string page = CLI::Formatter::make_help(app, std::move(name), mode);
    page = CLI::detail::find_and_replace(page, "\n\n\n", "\n\n");
    page.erase(page.find_last_not_of('\n') + 1);
    return page + "\n";
  }

  std::string make_description(const CLI::App* app) const override {
    return comm::wrapped(CLI::Formatter::make_description(app), columns_);
  }

  // CLI11 does not say that the command line of another program follows.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_prefix_command()) usage.insert(usage.find_last_not_of('\n') + 1, " [--] PROGRAM [ARGUMENTS...]");
    return comm::wrapped(usage, columns_);
  }

  std::string make_footer(const CLI::App* app) const override {
    return comm::wrapped(CLI::Formatter::make_footer(app), columns_);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream line;
    CLI::detail::format_help(line, command->get_name(), beside_names(command->get_description()), column_width_);
    return line.str();
  }

  // Without the value that "--no-x" stands for.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_option_name(option, is_positional), "{false}", "");
  }

  // "INT in [0 - 65535]" for CLI11's "INT:INT in [0 - 65535]"; without the options that this one excludes.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::size_t colon = option->get_type_name().find(':');
    if (colon != std::string::npos) text.erase(1, colon + 1);
    return text.substr(0, text.find(" Excludes:"));
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return beside_names(option->get_description());
  }

 private:
  std::string beside_names(const std::string& text) const { return comm::wrapped(text, columns_ - column_width_); }

  std::size_t columns_;
};

}  // namespace

void use_help_page(CLI::App& app, std::size_t columns) { app.formatter(std::make_shared<HelpPage>(columns)); }

void group_options(CLI::App& command, std::initializer_list<HelpGroup> groups) {
  for (const HelpGroup& group : groups) {
    for (const char* name : group.options) {
      CLI::Option* const option = command.get_option_no_throw(name);
      if (option != nullptr) option->group(group.title);
    }
  }
}

}  // namespace tutti::tools
