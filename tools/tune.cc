// `tutti tune FILE`: measures the algorithms on this machine, and writes the file that TUTTI_TUNING names. With -n N
// this very command is started N times.
//
// First the network model (cost_model.h), then each algorithm of each operation at a few sizes.

#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/tools/bench/live_line.h>
#include <tutti/tools/bench/measure.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/plan/price.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/checkpoint/files.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::tools {
namespace {

using comm::OpKind;
using comm::ProcessGroup;
using Clock = std::chrono::steady_clock;

constexpr int kTurns = 3;
constexpr double kShortest = 1e-8;  // seconds: nothing took less

constexpr std::size_t kElementBytes = sizeof(float);
constexpr std::size_t kSizes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22};  // of one rank's or of the whole array
constexpr OpKind kOps[] = {OpKind::AllReduce,     OpKind::Broadcast, OpKind::Reduce, OpKind::AllGather,
                           OpKind::ReduceScatter, OpKind::AllToAll,  OpKind::Gather, OpKind::Scatter};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

const bench::Operation& operation_of(OpKind op) {
  for (const bench::Operation& operation : bench::operations()) {
    if (operation.kind == op) return operation;
  }
  throw std::logic_error("tutti bench has no " + std::string(comm::name(op)));
}

/// What each rank adds up by itself, all of them at once.
constexpr bench::Operation kSums{
    .name = "sums",
    .extents =
        [](const bench::Case& c) {
          return bench::Extents{c.count, c.count};
        },
    .run =
        [](ProcessGroup&, const bench::Case& c, const comm::Buffer& input, const comm::Buffer& output) {
          comm::reduce_into(output.data, input.data, c.count, comm::DType::Float32, comm::ReduceOp::Sum, false);
        }};

/// What one call takes by `algorithm`, where that is one of the group's: the least of the medians that bench::measure()
/// finds in turns of about `budget` seconds in all, as a disturbance only ever adds time. Equal on all ranks.
/// Afterwards the group chooses its algorithms again.
double seconds_of(ProcessGroup& group, const bench::Operation& operation, std::size_t count,
                  const std::string& algorithm, double budget) {
  const bench::Case c{.rank = group.rank(), .world_size = group.world_size(), .count = count};
  bench::MeasureOptions options{.warmup = 1, .check = false};
  options.min_time = std::chrono::nanoseconds(std::llround(budget / kTurns * 1e9));
  if (operation.rooted) options.barrier_above = 0;  // some ranks leave such a call early
  group.use_algorithm(algorithm);
  double us = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < kTurns; ++turn) us = std::min(us, bench::measure(group, operation, c, options).time.median);
  group.use_algorithm("");
  return std::max(kShortest, us * 1e-6);
}

/// The algorithms of `op` that comm would consider for this group.
std::vector<std::string_view> candidates(ProcessGroup& group, OpKind op) {
  const comm::TuningPlace place = group.place();
  Question question;
  question.element_bytes = kElementBytes;
  question.problem = {.op = op, .world_size = place.world_size, .count = 1};
  if (place.hosts > 1 && place.hosts < place.world_size) {
    for (int rank = 0; rank < place.world_size; ++rank)
      question.problem.hosts.push_back(rank * place.hosts / place.world_size);
  }
  return fitting_algorithms(question);
}

/// One thing to time.
struct Cell {
  OpKind op;
  std::string algorithm;
  std::size_t count;
  std::size_t size;  // of kSizes
};

/// Small sizes first; nothing where there is no choice.
std::vector<Cell> cells(ProcessGroup& group) {
  std::vector<Cell> result;
  for (const std::size_t bytes : kSizes) {
    for (const OpKind op : kOps) {
      const auto names = candidates(group, op);
      if (names.size() < 2) continue;
      const std::size_t count = bench::count_for(operation_of(op), bytes, kElementBytes, group.world_size());
      for (const std::string_view name : names) result.push_back({op, std::string(name), count, bytes});
    }
  }
  return result;
}

/// Alpha and beta from all_gathers by a ring of short and of long blocks, in which all ranks send p - 1 messages one
/// after the other; gamma from sums by all ranks at once.
comm::NetworkModel measure_network(ProcessGroup& group, double seconds) {
  constexpr std::size_t kShortBlock = 1 << 10, kLongBlock = 1 << 20;  // bytes
  const auto of_message = [&](std::size_t block) {
    return seconds_of(group, operation_of(OpKind::AllGather), block / kElementBytes, "ring", seconds / 3) /
           (group.world_size() - 1);
  };
  const double of_short = of_message(kShortBlock), of_long = of_message(kLongBlock);
  comm::NetworkModel model;
  model.beta = model.local_beta = std::max(0.0, of_long - of_short) / static_cast<double>(kLongBlock - kShortBlock);
  model.alpha = model.local_alpha = std::max(0.0, of_short - model.beta * static_cast<double>(kShortBlock));
  model.gamma = seconds_of(group, kSums, kLongBlock / kElementBytes, "", seconds / 3) / static_cast<double>(kLongBlock);
  return model;
}

struct TuneArguments {
  std::string file;
  std::optional<std::int64_t> nproc;
  std::string transport;
  bool encrypt = false;
  std::size_t columns = 0;  // bench::StepLine
  double seconds = 3.5;
};

/// Equal on all ranks; arguments.seconds is about how long in all: sizes that have not been begun by then are left out.
comm::Tuning tune(ProcessGroup& group, const TuneArguments& arguments) {
  const double seconds = arguments.seconds;
  if (group.world_size() < 2) throw std::runtime_error("a single rank has nothing to tune; give -n 2 or more");
  const auto begin = Clock::now();
  comm::Tuning tuning{.host = comm::host_name(), .date = utc_now(), .place = group.place(), .model = {}, .rows = {}};
  const std::vector<Cell> all = cells(group);
  bench::StepLine live(group.rank() == 0, 1 + all.size(), arguments.columns);
  live.next("messages");
  tuning.model = measure_network(group, seconds / 4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Cell& cell = all[i];
    const double left = bench::agreed(group, seconds - seconds_since(begin));
    // Not in the midst of a size: what was measured for one algorithm must have been for its rivals, too.
    if (left <= 0 && i > 0 && cell.size != all[i - 1].size) break;
    live.next(std::string(comm::name(cell.op)) + " " + cell.algorithm + " " + std::to_string(cell.size) + " B");
    const double budget = std::max(0.0, left) / static_cast<double>(all.size() - i);
    tuning.rows.push_back({cell.op, cell.algorithm, cell.count * kElementBytes,
                           seconds_of(group, operation_of(cell.op), cell.count, cell.algorithm, budget)});
  }
  return tuning;
}

void print_tuning(std::ostream& out, const comm::Tuning& tuning) {
  const comm::NetworkModel& model = tuning.model;
  out << comm::format("# %d ranks on %d host(s) over %s; alpha %.1f us, %.2f GB/s, gamma %.3f ns/byte\n",
                      tuning.place.world_size, tuning.place.hosts, tuning.place.transport.c_str(), model.alpha * 1e6,
                      1e-9 / model.beta, model.gamma * 1e9);
  out << comm::format("%-16s %12s  %s\n", "operation", "bytes a rank", "us by algorithm, fastest first");
  for (auto row = tuning.rows.begin(); row != tuning.rows.end();) {
    const auto end = std::find_if(row, tuning.rows.end(),
                                  [&](const auto& other) { return other.op != row->op || other.bytes != row->bytes; });
    std::vector<comm::Tuning::Row> sorted(row, end);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    out << comm::format("%-16s %12zu ", std::string(comm::name(row->op)).c_str(), row->bytes);
    for (const auto& each : sorted) out << comm::format(" %s %.1f", each.algorithm.c_str(), each.seconds * 1e6);
    out << "\n";
    row = end;
  }
}

void check(const TuneArguments& arguments, bool is_launched) {
  if (arguments.file.empty()) throw WrongUsage("give the FILE to write");
  if (!is_launched && arguments.nproc.value_or(1) < 2)
    throw WrongUsage("a single rank has nothing to tune; give -n 2 or more");
  if (const std::string why = nproc_objection(arguments.nproc); !why.empty()) throw WrongUsage(why);
  if (!(arguments.seconds > 0 && arguments.seconds <= 3600))
    throw WrongUsage("--seconds: must be above 0, at most 3600");
}

int tune_in_group(ProcessGroup& group, const TuneArguments& arguments) {
  const bool speaks = group.rank() == 0;
  if (speaks) trainer::check_writable(arguments.file);
  const comm::Tuning tuning = tune(group, arguments);
  if (!speaks) return 0;
  print_tuning(std::cout, tuning);
  trainer::replace_file(arguments.file, comm::tuning_text(tuning));
  std::cout << "# written to " << arguments.file << "; use it with TUTTI_TUNING=" << arguments.file << std::endl;
  return 0;
}

int tune_command(const TuneArguments& arguments) {
  const bool is_launched = world_size_from_launcher().has_value();
  check(arguments, is_launched);
  if (!is_launched) {
    trainer::check_writable(arguments.file);
    return launch(launch_of_own_ranks(static_cast<int>(*arguments.nproc), "tutti tune", STDERR_FILENO));
  }
  return run_as_rank(comm::World::detect(), {.transport = arguments.transport, .encrypt = arguments.encrypt},
                     [&](ProcessGroup& group) { return tune_in_group(group, arguments); });
}

}  // namespace

void add_tune_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("tune", "measure the algorithms on this machine for TUTTI_TUNING");
  const auto arguments = std::make_shared<TuneArguments>();
  command->add_option("FILE", arguments->file, "where to write what was measured");
  add_own_ranks_options(*command, arguments->nproc);
  command->add_option("--transport", arguments->transport, "auto, tcp, shm or ucx; the file holds for this one [auto]");
  command->add_flag("--encrypt", arguments->encrypt, "TLS on TCP connections between ranks; the file holds for these");
  add_columns_option(*command, arguments->columns);
  command->add_option("--seconds", arguments->seconds, "about how long to measure")->capture_default_str();
  command->callback(
      [arguments, &status] { status = status_of("tutti tune", [&] { return tune_command(*arguments); }); });
}

}  // namespace tutti::tools
