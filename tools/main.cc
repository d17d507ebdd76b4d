// The `tutti` program: finds the subcommand and ends with its status.

#include <sys/prctl.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/help.h>
#include <tutti/tools/run/spawn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <streambuf>
#include <string>
#include <vector>

namespace {

// What a stream of this program shows may come from files, names and the environment: a terminal obeys none of it.
class PrintableOutput : public std::streambuf {
 public:
  explicit PrintableOutput(std::ostream& stream) : stream_(stream), target_(stream.rdbuf(this)) {}
  ~PrintableOutput() override { stream_.rdbuf(target_); }
  PrintableOutput(const PrintableOutput&) = delete;
  PrintableOutput& operator=(const PrintableOutput&) = delete;

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::string shown = tutti::comm::printable_utf8({text, static_cast<std::size_t>(count)}, "\n\t");
    const auto size = static_cast<std::streamsize>(shown.size());
    return target_->sputn(shown.data(), size) == size ? count : 0;
  }
  int_type overflow(int_type c) override {
    const char one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? traits_type::not_eof(c) : traits_type::eof();
  }
  int sync() override { return target_->pubsync(); }

 private:
  std::ostream& stream_;
  std::streambuf* target_;
};

// CLI11 prints help for --help and --version, and errors in its own form; ours is: one sentence, then where to look.
int report_parse_result(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  const CLI::App* command = &app;
  std::string path = "tutti";
  for (auto subs = app.get_subcommands(); !subs.empty(); subs = command->get_subcommands()) {
    command = subs.front();
    path += " " + command->get_name();
  }
  std::vector<std::string> unknown;
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError) unknown = app.remaining(true);
  // Of "--modle mlp" the option is what is wrong.
  const auto option = std::ranges::find_if(unknown, [](const std::string& word) { return word.starts_with("-"); });
  if (option != unknown.end()) std::iter_swap(option, unknown.begin());
  std::cerr << path << ": " << (unknown.empty() ? error.what() : tutti::tools::unknown_word(*command, unknown.front()))
            << "\nRun '" << path << " --help' for the options.\n";
  return 2;
}

// What `top` and `ps` show of a launcher's rank.
void name_after_rank() {
  const char* rank = std::getenv("RANK");
  const char* world_size = std::getenv("WORLD_SIZE");
  if (rank == nullptr || world_size == nullptr) return;
  ::prctl(PR_SET_NAME, (std::string("rank ") + rank + " of " + world_size).c_str());
}

// What CLI11 2.1 lets pass: an empty value (as an unset shell variable gives), and a number that does not fit, which it
// cuts to the largest one.
std::string refuse_value(const std::string& type, const std::string& value) {
  if (value.empty()) return "the value is empty";
  if (!type.starts_with("INT") && !type.starts_with("UINT") && !type.starts_with("FLOAT")) return {};
  errno = 0;
  if (type.starts_with("INT")) {
    std::strtoll(value.c_str(), nullptr, 0);
  } else if (type.starts_with("UINT")) {
    if (value.front() == '-') return "'" + value + "' must not be negative";
    std::strtoull(value.c_str(), nullptr, 0);
  } else if (std::abs(std::strtod(value.c_str(), nullptr)) < 1) {
    return {};  // a tiny number is a zero; only too large ones do not fit
  }
  return errno == ERANGE ? "the number '" + value + "' does not fit" : std::string{};
}

// Every option of every command, those of commands to come included.
void check_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    const std::string type = option->get_type_name();
    option->check([type](const std::string& value) { return refuse_value(type, value); }, "");
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) check_values(*command);
}

// What was printed has arrived, or it is an error that is said. A reader that went away (`| head`) is none: 141, as by
// SIGPIPE.
int flush_output(int status) {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0 && std::cout.good()) return status;
  // An earlier write failed, and its reason is gone: the next byte fails alike.
  const int error = flushed && ::write(STDOUT_FILENO, "\n", 1) == 1 ? 0 : errno;
  if (error != EPIPE) {
    std::cerr << "tutti: cannot write standard output: " << (error == 0 ? "a part was lost" : std::strerror(error))
              << "\n";
  }
  if (status != 0) return status;
  return error == EPIPE ? 128 + SIGPIPE : 1;
}

// Longer lines are hard to read on any screen.
std::size_t help_columns() {
  const std::size_t columns = tutti::comm::terminal_columns(STDOUT_FILENO);
  return columns == 0 ? 100 : std::clamp<std::size_t>(columns, 40, 100);
}

int run(int argc, char** argv) {
  using namespace tutti::tools;
  CLI::App app("Tutti: collective communication, a small tensor engine and a data-parallel trainer", "tutti");
  use_help_page(app, help_columns());
  app.set_version_flag("--version", "tutti " TUTTI_VERSION);
  app.require_subcommand(1);
  int status = 0;
  for (const auto add : {add_run_command, add_train_command, add_bench_command, add_data_command, add_plan_command,
                         add_tune_command, add_report_command, add_evaluate_command, add_compare_command,
                         add_store_command, add_doctor_command, add_lab_command, add_completion_command})
    add(app, status);
  check_values(app);
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    if (mark != arguments.end()) *mark = kProgramFollows;
    accept_underscores(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // the order CLI11 takes a vector in
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return report_parse_result(app, error);
  } catch (const std::exception& error) {
    std::cerr << "tutti: " << error.what() << "\n";
    return 1;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  tutti::tools::ensure_standard_descriptors();
  name_after_rank();
  const PrintableOutput out(std::cout), err(std::cerr);
  return flush_output(run(argc, argv));
}
