#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/bench/data.h>
#include <tutti/tools/bench/options.h>
#include <tutti/tools/commands.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace tutti::tools::bench {
namespace {

constexpr std::array kReduceOps{comm::ReduceOp::Sum, comm::ReduceOp::Avg,  comm::ReduceOp::Prod, comm::ReduceOp::Min,
                                comm::ReduceOp::Max, comm::ReduceOp::BAnd, comm::ReduceOp::BOr,  comm::ReduceOp::BXor};

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

/// The shift that a unit stands for; -1 for a word that is none.
int unit_shift(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  constexpr std::string_view kUnits = "KMGT";
  const char letter = unit.front() >= 'a' ? static_cast<char>(unit.front() - 'a' + 'A') : unit.front();
  const std::size_t at = kUnits.find(letter);
  const std::string_view rest = unit.substr(1);
  const bool known_rest = rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "ib";
  return at == std::string_view::npos || !known_rest ? -1 : 10 * (static_cast<int>(at) + 1);
}

/// The member of `values` called `text`, by the names that comm gives them.
template <typename Values>
typename Values::value_type find_named(const Values& values, std::string_view text, std::string_view option) {
  std::string known;
  for (const auto value : values) {
    if (comm::name(value) == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(comm::name(value));
  }
  throw WrongUsage(std::string(option) + " " + in_quotes(text) + " is unknown; known are " + known);
}

void check_algorithm(const std::string& name) {
  try {
    (void)comm::algorithms::select({.op = comm::OpKind::Barrier}, 1, name);
  } catch (const comm::Error& error) {
    throw WrongUsage("--algo: " + std::string(error.what()));
  }
}

/// What `local_ranks` ranks hold at once, the root among them: input, output and as much as the longer of them in
/// flight; with --check what the output should be; and what a buffer that is written anew before each call was.
double bytes_of_largest_row(const BenchOptions& options, const Operation& operation, int world_size, int local_ranks) {
  Case c{.world_size = world_size, .dtype = options.dtype};
  c.count = count_for(operation, options.max_bytes, comm::size_of(c.dtype), world_size);
  const bool check = options.measuring.check, fresh = options.measuring.fresh;
  const bool keeps_initial = operation.in_place && (check || fresh);
  const double inputs = fresh ? 2 : 1;
  const double outputs = 1 + (check ? 1 : 0) + (keeps_initial ? 1 : 0);
  double elements = 0;
  for (c.rank = 0; c.rank < local_ranks; ++c.rank) {
    const Extents extents = operation.extents(c);
    const auto input = static_cast<double>(extents.input), output = static_cast<double>(extents.output);
    elements += inputs * input + outputs * output + std::max(input, output);
  }
  return elements * static_cast<double>(comm::size_of(c.dtype));
}

}  // namespace

std::size_t parse_bytes(std::string_view text, std::string_view option) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const int shift = error == std::errc() ? unit_shift(unit) : -1;
  if (shift < 0 || value > (std::numeric_limits<std::size_t>::max() >> shift)) {
    throw WrongUsage(std::string(option) + " " + in_quotes(text) +
                     " is no size; write bytes as 4, 1K, 16M or 64MiB (K = 1024)");
  }
  return value << shift;
}

comm::DType parse_dtype(std::string_view text) { return find_named(verifiable_types(), text, "--dtype"); }
comm::ReduceOp parse_redop(std::string_view text) { return find_named(kReduceOps, text, "--redop"); }

void check_options(const BenchOptions& options) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (options.min_bytes < 1) throw WrongUsage("--min-bytes is 0, but must be at least 1");
  if (options.max_bytes < options.min_bytes) {
    throw WrongUsage("--max-bytes " + number(options.max_bytes) + " is less than --min-bytes " +
                     number(options.min_bytes));
  }
  if (options.step_factor == 1 && options.max_bytes != options.min_bytes) {
    throw WrongUsage("--step-factor 1 never reaches --max-bytes " + number(options.max_bytes) +
                     "; give 2 or more, or the same --min-bytes and --max-bytes");
  }
  const std::string& transport = options.group.transport;
  if (!transport.empty() && transport != "auto" && transport != "tcp" && transport != "shm" && transport != "ucx") {
    throw WrongUsage("--transport " + in_quotes(transport) + " is unknown; known are auto, tcp, shm and ucx");
  }
  if (const std::string why = comm::refusal(options.redop, options.dtype); !why.empty()) {
    throw WrongUsage("--redop " + std::string(comm::name(options.redop)) + " with --dtype " +
                     std::string(comm::name(options.dtype)) + ": " + why);
  }
  check_algorithm(options.group.algorithm);
}

void check_memory(const BenchOptions& options, std::span<const Operation> table, int world_size, int local_ranks) {
  double needed = 0;
  for (const Operation& operation : table)
    needed = std::max(needed, bytes_of_largest_row(options, operation, world_size, local_ranks));
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= present) return;
  const auto gigabytes = [](double bytes) { return std::to_string(std::llround(bytes / 1e9)) + " GB"; };
  throw WrongUsage("--max-bytes " + std::to_string(options.max_bytes) + " with " + std::to_string(local_ranks) +
                   " ranks on this machine needs about " + gigabytes(needed) + " of memory, and there are " +
                   gigabytes(present));
}

std::vector<std::size_t> sizes(const BenchOptions& options) {
  std::vector<std::size_t> result{options.min_bytes};
  while (options.step_factor > 1 && result.back() <= options.max_bytes / options.step_factor) {
    result.push_back(result.back() * options.step_factor);
  }
  return result;
}

}  // namespace tutti::tools::bench
