// `tutti bench OP`: the command line. Measuring, checking and printing are in bench/; with -n N this very command is
// started N times.

#include <tutti/tools/bench/run_bench.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/help.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/checkpoint/files.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tutti::tools {
namespace {

using bench::BenchOptions;

/// What the command line says; numbers and names that are still to be checked stand beside `options`.
struct BenchArguments {
  BenchOptions options;
  std::optional<std::int64_t> nproc;
  std::string min_bytes = "4";
  std::string max_bytes = "64M";
  std::string dtype = "float32";
  std::string redop = "sum";
};

void add_options(CLI::App& app, BenchArguments& arguments) {
  bench::MeasureOptions& measuring = arguments.options.measuring;
  std::string names;
  for (const auto& operation : bench::operations()) names += std::string(operation.name) + ", ";
  app.add_option("OP", arguments.options.operation, names + "or all")->required();
  add_own_ranks_options(app, arguments.nproc);
  app.add_option("-b,--min-bytes", arguments.min_bytes, "smallest size; 4, 1K, 16M, 64MiB")->capture_default_str();
  app.add_option("-e,--max-bytes", arguments.max_bytes, "largest size")->capture_default_str();
  app.add_option("-f,--step-factor", arguments.options.step_factor, "from one size to the next")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--dtype", arguments.dtype, "float32, bfloat16, int64, ...: the types of comm")->capture_default_str();
  app.add_option("--redop", arguments.redop, "sum, avg, prod, min, max, band, bor or bxor")->capture_default_str();
  app.add_option("--transport", arguments.options.group.transport, "auto, tcp, shm or ucx")->default_str("auto");
  app.add_flag("--encrypt", arguments.options.group.encrypt,
               "TLS on TCP connections between ranks, as TUTTI_ENCRYPT=1");
  app.add_option("--algo", arguments.options.group.algorithm,
                 "algorithm, where it implements the operation [chosen by size]");
  app.add_flag("--registered", measuring.registered, "buffers that other ranks of the host reach in place");
  app.add_flag("--reproducible", arguments.options.group.reproducible,
               "reductions in the order of the ranks, whatever else differs");
  app.add_flag("--fresh", measuring.fresh,
               "write the data anew before each call, as a program that has just computed it");
  app.add_flag("--check,!--no-check", measuring.check, "compare every result [on]");
  app.add_option("--iterations", measuring.iterations, "timed calls a row; 0: 0.3 s of them")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  app.add_option("--warmup", measuring.warmup, "calls before the timed ones")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  app.add_option("--json", arguments.options.json, "write the results to this file");
  app.add_option("--trace", arguments.options.group.trace_file,
                 "write what all ranks communicated to this file, for ui.perfetto.dev");
  add_timeout_option(app, arguments.options.group.timeout);
  add_columns_option(app, arguments.options.columns);
  group_options(app, {{"Sizes and types", {"--min-bytes", "--max-bytes", "--step-factor", "--dtype", "--redop"}},
                      {"Ranks", {"--nproc", "--launcher", "--iface", "--transport", "--encrypt", "--timeout"}},
                      {"Output", {"--json", "--trace"}}});
}

/// What the command line says, checked. Throws WrongUsage.
BenchOptions interpreted(const BenchArguments& arguments) {
  BenchOptions options = arguments.options;
  if (const std::string why = nproc_objection(arguments.nproc); !why.empty()) throw WrongUsage(why);
  options.min_bytes = bench::parse_bytes(arguments.min_bytes, "--min-bytes");
  options.max_bytes = bench::parse_bytes(arguments.max_bytes, "--max-bytes");
  options.dtype = bench::parse_dtype(arguments.dtype);
  options.redop = bench::parse_redop(arguments.redop);
  bench::check_options(options);
  return options;
}

int launch_ranks(const BenchOptions& options, std::span<const bench::Operation> table, int nproc) {
  bench::check_memory(options, table, nproc, nproc);  // once, before N ranks say the same
  if (!options.json.empty()) trainer::check_writable(options.json);
  return launch(launch_of_own_ranks(nproc, "tutti bench", STDERR_FILENO));
}

int bench_command(const BenchArguments& arguments) {
  const BenchOptions options = interpreted(arguments);
  const auto table = bench::find_operations(bench::operations(), options.operation);
  const auto launched = world_size_from_launcher();
  const int nproc = static_cast<int>(arguments.nproc.value_or(1));
  if (!launched && nproc < table.front().min_ranks) {
    throw WrongUsage(options.operation + " needs " + std::to_string(table.front().min_ranks) + " ranks; give -n " +
                     std::to_string(table.front().min_ranks));
  }
  if (nproc > 1 && !launched) return launch_ranks(options, table, nproc);
  if (!launched) std::cerr << "tutti bench: one rank alone sends nothing to any other; -n 2 measures two\n";
  return bench::run_bench(table, options, std::cout);
}

}  // namespace

void add_bench_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("bench", "measure and check the collectives, as nccl-tests does");
  const auto arguments = std::make_shared<BenchArguments>();
  add_options(*command, *arguments);
  command->callback(
      [arguments, &status] { status = status_of("tutti bench", [&] { return bench_command(*arguments); }); });
}

}  // namespace tutti::tools
