// `tutti completion`: what bash and zsh need to complete this program's command lines, and its manual page. All are
// made from CLI11's own tables of commands and options; `cmake --install` puts them where shells and man look.

#include <tutti/tools/commands.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace tutti::tools {
namespace {

// Behind "--" another program's command line follows.
constexpr char kBash[] = R"sh(
_tutti() {
  local command=tutti word
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word == -- ]]; then return; fi
    if [[ -n $(_tutti_words "$command $word") ]]; then command="$command $word"; fi
  done
  COMPREPLY=($(compgen -W "$(_tutti_words "$command")" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _tutti tutti
)sh";

constexpr char kZsh[] = R"sh(
_tutti() {
  local command=tutti word
  for word in ${words[2,CURRENT-1]}; do
    if [[ $word == -- ]]; then _default; return; fi
    if [[ -n $(_tutti_words "$command $word") ]]; then command="$command $word"; fi
  done
  compadd -- $(_tutti_words "$command") || _default
}
if [[ ${funcstack[1]} == _tutti ]]; then _tutti "$@"; else compdef _tutti tutti; fi
)sh";

std::vector<const CLI::App*> shown_commands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options();
  std::erase_if(options, [](const CLI::Option* option) { return option->get_group().empty(); });
  return options;
}

/// Branches of the shell's `case`: the beginning of a command line, and the words that may follow it.
std::string branches(const CLI::App& command, const std::string& path) {
  std::string words, below;
  for (const CLI::App* sub : shown_commands(command)) {
    words += sub->get_name() + " ";
    below += branches(*sub, path + " " + sub->get_name());
  }
  for (const CLI::Option* option : shown_options(command))
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  return "    \"" + path + "\") echo '" + words + "' ;;\n" + below;
}

std::string functions(const CLI::App& app, const char* completion) {
  return "_tutti_words() {\n  case $1 in\n" + branches(app, "tutti") + "  esac\n}" + completion;
}

/// As roff(7) takes it literally.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '-') escaped += '\\';
    escaped += c == '\\' ? 'e' : c;
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

/// The sections of a command and of those below it.
std::string sections(const CLI::App& command, const std::string& path) {
  std::string page = ".SS " + roff(path) + "\n" + roff(command.get_description()) + "\n";
  for (const CLI::Option* option : shown_options(command)) {
    if (option->get_name() == "-h,--help" || option->get_name() == "--help") continue;
    std::string type = option->get_type_name();
    type.erase(0, type.find(':') + 1);  // "INT in [0 - 65535]" of CLI11's "INT:INT in [0 - 65535]"
    if (!type.empty()) type = " \\fI" + roff(type) + "\\fR";
    page += ".TP\n\\fB" + roff(option->get_name(false, true)) + "\\fR" + type + "\n" + roff(option->get_description()) +
            "\n";
  }
  for (const CLI::App* sub : shown_commands(command)) page += sections(*sub, path + " " + sub->get_name());
  return page;
}

std::string manual(const CLI::App& app) {
  std::string page = ".TH TUTTI 1 \"\" \"tutti " TUTTI_VERSION "\"\n.SH NAME\ntutti \\- " +
                     roff(app.get_description()) + "\n.SH SYNOPSIS\n.B tutti\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n";
  for (const CLI::App* sub : shown_commands(app)) page += sections(*sub, "tutti " + sub->get_name());
  return page +
         ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage; tutti run ends with the status of the first rank that "
         "fails.\n";
}

}  // namespace

void add_completion_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("completion", "Print what a shell completes by, or the manual page");
  const auto kind = std::make_shared<std::string>();
  command->add_option("KIND", *kind, "bash: . <(tutti completion bash); zsh; or man: tutti completion man | man -l -")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "man"}));
  command->callback([kind, &app, &status] {
    status = status_of("tutti completion", [&] {
      std::cout << (*kind == "man"   ? manual(app)
                    : *kind == "zsh" ? "#compdef tutti\n" + functions(app, kZsh)
                                     : functions(app, kBash));
      return 0;
    });
  });
}

}  // namespace tutti::tools
