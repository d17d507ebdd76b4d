#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/bench/run_bench.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/trainer/checkpoint/files.h>

#include <algorithm>
#include <memory>
#include <string>

namespace tutti::tools::bench {
namespace {

std::string transport_name(const comm::ProcessGroup& group) {
  return group.world_size() > 1 ? group.transport_name() : "none";
}

std::optional<std::string> algorithm_of(comm::ProcessGroup& group, const Operation& operation, const Case& c) {
  if (operation.kind == comm::OpKind::Send || c.world_size == 1) return std::nullopt;
  return group.algorithm_for(operation.kind, c.count, c.dtype, c.root);
}

Result as_result(comm::ProcessGroup& group, const Operation& operation, const Case& c, const BenchOptions& options,
                 Measurement measured) {
  Result result{.op = std::string(operation.name),
                .ranks = c.world_size,
                .transport = transport_name(group),
                .algorithm = algorithm_of(group, operation, c),
                .registered = options.registered,
                .dtype = {},
                .redop = {},
                .root = {},
                .bytes = bytes_for(operation, c.count, comm::size_of(c.dtype), c.world_size),
                .count = c.count,
                .measured = measured};
  if (operation.moves_data) result.dtype = comm::name(c.dtype);
  if (operation.reduces) result.redop = comm::name(c.redop);
  if (operation.rooted) result.root = c.root;
  // Bytes a microsecond are MB/s. A clock too coarse to see the call leaves 0.
  if (measured.time.median > 0) result.algbw_gbps = static_cast<double>(result.bytes) / measured.time.median / 1e3;
  result.busbw_gbps = result.algbw_gbps * operation.bus_factor(c.world_size);
  return result;
}

/// The counts of one operation's rows: each once, also where several sizes round to the same.
std::vector<std::size_t> counts_of(const Operation& operation, const BenchOptions& options, int world_size) {
  std::vector<std::size_t> counts;
  for (const std::size_t bytes : sizes(options)) {
    counts.push_back(count_for(operation, bytes, comm::size_of(options.dtype), world_size));
  }
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

int bench_in_world(std::span<const Operation> table, const BenchOptions& options, const comm::World& world,
                   std::ostream& out) {
  check_options(options);
  check_memory(options, table, world.world_size, world.local_world_size);
  comm::ProcessGroupOptions group_options;
  group_options.timeout = options.timeout;
  group_options.algorithm = options.algorithm;
  group_options.transport = options.transport == "auto" ? "" : options.transport;
  group_options.encrypt = options.encrypt;
  group_options.reproducible = options.reproducible;
  group_options.trace_file = options.trace;
  return run_as_rank(world, group_options, [&](comm::ProcessGroup& group) {
    const bool writes = world.rank == 0 && !options.json.empty();
    if (writes) trainer::check_writable(options.json);
    const std::vector<Result> results = run_in_group(group, table, options, out);
    if (writes) trainer::replace_file(options.json, results_json(results));
    return exit_status(results);
  });
}

}  // namespace

std::vector<Result> run_in_group(comm::ProcessGroup& group, std::span<const Operation> table,
                                 const BenchOptions& options, std::ostream& out) {
  const bool prints = group.rank() == 0;
  const int ranks = group.world_size();
  const MeasureOptions measuring{options.warmup, options.iterations, options.min_time, options.check,
                                 options.seed,   options.registered, options.fresh};
  std::vector<Result> results;
  if (prints) print_header(out, options, ranks, transport_name(group));
  for (const Operation& operation : table) {
    if (ranks < operation.min_ranks) {
      if (prints) out << "#\n# " << operation.name << ": left out, needs " << operation.min_ranks << " ranks (-n)\n";
      continue;
    }
    if (prints) print_titles(out, std::string(operation.name));
    for (const std::size_t count : counts_of(operation, options, ranks)) {
      const Case c{.rank = group.rank(),
                   .world_size = ranks,
                   .root = 0,
                   .count = count,
                   .dtype = options.dtype,
                   .redop = options.redop};
      results.push_back(as_result(group, operation, c, options, measure(group, operation, c, measuring)));
      if (prints) print_row(out, results.back());
    }
  }
  if (prints) print_footer(out, results);
  return results;
}

int exit_status(std::span<const Result> results) {
  const auto wrong = [](const Result& result) { return result.measured.wrong.value_or(0) > 0; };
  return std::any_of(results.begin(), results.end(), wrong) ? 1 : 0;
}

int run_bench(std::span<const Operation> table, const BenchOptions& options, std::ostream& out,
              std::ostream& err) noexcept {
  std::string who = "tutti bench: ";
  try {
    const comm::World world = comm::World::detect();
    if (world.world_size > 1) who = "rank " + std::to_string(world.rank) + ": ";
    return bench_in_world(table, options, world, out);
  } catch (const UsageError& error) {
    err << who << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    err << who << error.what() << std::endl;
    return 1;
  }
}

}  // namespace tutti::tools::bench
