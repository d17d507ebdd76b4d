// `tutti tune FILE`: measures the algorithms on this machine, and writes the file that TUTTI_TUNING names. With -n N
// this very command is started N times.

#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/tune/tuner.h>
#include <tutti/trainer/checkpoint/files.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace tutti::tools {
namespace {

struct TuneArguments {
  std::string file;
  int nproc = 1;
  std::string transport;
  bool encrypt = false;
  double seconds = 3.5;
};

void check(const TuneArguments& arguments, bool is_launched) {
  if (arguments.file.empty()) throw WrongUsage("give the FILE to write");
  if (!is_launched && arguments.nproc < 2) throw WrongUsage("a single rank has nothing to tune; give -n 2 or more");
  if (arguments.nproc > 4096) throw WrongUsage("-n " + std::to_string(arguments.nproc) + ": at most 4096");
  if (!(arguments.seconds > 0 && arguments.seconds <= 3600))
    throw WrongUsage("--seconds: must be above 0, at most 3600");
}

void tune_in_group(comm::ProcessGroup& group, const TuneArguments& arguments) {
  const bool speaks = group.rank() == 0;
  if (speaks) trainer::check_writable(arguments.file);
  const comm::Tuning tuning = tune(group, {.seconds = arguments.seconds});
  if (!speaks) return;
  print_tuning(std::cout, tuning);
  trainer::replace_file(arguments.file, comm::tuning_text(tuning));
  std::cout << "# written to " << arguments.file << "; use it with TUTTI_TUNING=" << arguments.file << std::endl;
}

int tune_as_rank(const TuneArguments& arguments) {
  const comm::World world = comm::World::detect();
  const auto group =
      comm::ProcessGroup::connect(world, {.transport = arguments.transport, .encrypt = arguments.encrypt});
  try {
    tune_in_group(*group, arguments);
  } catch (const std::exception& error) {
    group->abort(error.what());
    throw;
  }
  group->shutdown();
  return 0;
}

int launch_ranks(const TuneArguments& arguments) {
  trainer::check_writable(arguments.file);
  return launch(launch_of_own_ranks(arguments.nproc, "tutti tune"));
}

int tune_command(const TuneArguments& arguments) {
  const bool is_launched = world_size_from_launcher().has_value();
  check(arguments, is_launched);
  return is_launched ? tune_as_rank(arguments) : launch_ranks(arguments);
}

}  // namespace

void add_tune_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("tune", "measure the algorithms on this machine for TUTTI_TUNING");
  const auto arguments = std::make_shared<TuneArguments>();
  command->add_option("FILE", arguments->file, "where to write what was measured");
  command->add_option("-n,--nproc", arguments->nproc, "ranks to start on this host, when no launcher has done so");
  add_launcher_option(*command);
  add_interface_option(*command);
  command->add_option("--transport", arguments->transport, "auto, tcp or shm; the file holds for this one [auto]");
  command->add_flag("--encrypt", arguments->encrypt, "TLS on TCP connections between ranks; the file holds for these");
  command->add_option("--seconds", arguments->seconds, "about how long to measure")->capture_default_str();
  command->callback(
      [arguments, &status] { status = status_of("tutti tune", [&] { return tune_command(*arguments); }); });
}

}  // namespace tutti::tools
