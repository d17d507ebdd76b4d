#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/tools/tune/tuner.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <ostream>
#include <span>
#include <stdexcept>
#include <utility>

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBatchSeconds = 3e-3;  // longer than a scheduler's time slice, where ranks share processors
constexpr double kFewestCalls = 2;      // each finds the caches as a call has left them
constexpr double kMostCalls = 300;
constexpr double kShortest = 1e-8;  // seconds: nothing took less

/// Of all ranks; equal on all of them.
double longest(comm::ProcessGroup& group, double seconds) {
  group.all_reduce(std::span<double>(&seconds, 1), comm::ReduceOp::Max);
  return std::max(kShortest, seconds);
}

double seconds_of(comm::ProcessGroup& group, const std::function<void()>& call, std::size_t calls) {
  group.barrier();
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) call();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return longest(group, seconds) / static_cast<double>(calls);
}

using comm::OpKind;
using comm::ProcessGroup;
using Clock = std::chrono::steady_clock;

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
      for (const std::string& name : names) result.push_back({op, name, count, bytes});
    }
  }
  return result;
}

template <typename... Values>
void print(std::ostream& out, const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  out << line;
}

/// What rank 0 says.
double agreed(ProcessGroup& group, double value) {
  group.broadcast(std::span<double>(&value, 1), 0);
  return value;
}

double seconds_of(ProcessGroup& group, const Cell& cell, double budget) {
  const auto begin = Clock::now();
  OperationMeter meter(group, cell.op, cell.count, cell.algorithm);
  do {
    meter.measure(group);
  } while (agreed(group, budget - seconds_since(begin)) > 0);
  return meter.seconds();
}

/// Alpha and beta from all_gathers by a ring of short and of long blocks, in which all ranks send p - 1 messages one
/// after the other; gamma from sums by all ranks at once.
comm::NetworkModel measure_network(ProcessGroup& group, double seconds) {
  constexpr std::size_t kShortBlock = 1 << 10, kLongBlock = 1 << 20;  // bytes
  const auto begin = Clock::now();
  std::vector<float> sum(kLongBlock / kElementBytes, 1.0F);
  const std::vector<float> incoming(sum.size(), 1.0F);
  const auto add = [&] {
    comm::reduce_into(sum.data(), incoming.data(), sum.size(), comm::DType::Float32, comm::ReduceOp::Sum, false);
  };
  OperationMeter short_blocks(group, OpKind::AllGather, kShortBlock / kElementBytes, "ring");
  OperationMeter long_blocks(group, OpKind::AllGather, kLongBlock / kElementBytes, "ring");
  Meter sums("", add);
  do {
    short_blocks.measure(group);
    long_blocks.measure(group);
    sums.measure(group);
  } while (agreed(group, seconds - seconds_since(begin)) > 0);
  const double messages = group.world_size() - 1;
  const double of_short = short_blocks.seconds() / messages, of_long = long_blocks.seconds() / messages;
  comm::NetworkModel model;
  model.beta = model.local_beta = std::max(0.0, of_long - of_short) / static_cast<double>(kLongBlock - kShortBlock);
  model.alpha = model.local_alpha = std::max(0.0, of_short - model.beta * static_cast<double>(kShortBlock));
  model.gamma = sums.seconds() / static_cast<double>(kLongBlock);
  return model;
}

}  // namespace

Meter::Meter(std::string algorithm, std::function<void()> call)
    : algorithm_(std::move(algorithm)), call_(std::move(call)) {}

void Meter::measure(comm::ProcessGroup& group) {
  group.use_algorithm(algorithm_);
  call_();  // whatever was measured in between has had the caches; at first connections are opened, pages are touched
  const double expected = batches_.empty() ? seconds_of(group, call_, 1) : seconds();
  const double calls = std::clamp(kBatchSeconds / expected, kFewestCalls, kMostCalls);
  batches_.push_back(seconds_of(group, call_, static_cast<std::size_t>(calls)));
  group.use_algorithm("");
}

double Meter::seconds() const {
  if (batches_.empty()) return 0;
  std::vector<double> sorted = batches_;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = (sorted.size() + 1) / 2;
  return std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(half), 0.0) /
         static_cast<double>(half);
}

const bench::Operation& operation_of(OpKind op) {
  for (const bench::Operation& operation : bench::operations()) {
    if (operation.kind == op) return operation;
  }
  throw std::logic_error("tutti bench has no " + std::string(comm::name(op)));
}

std::vector<std::string> candidates(ProcessGroup& group, OpKind op) {
  const comm::TuningPlace place = group.place();
  const bool shares_hosts = place.hosts > 1 && place.hosts < place.world_size;
  std::vector<std::string> result;
  for (const std::string_view name : comm::algorithms::names_for(op)) {
    if (name.rfind("hierarchical", 0) == 0 && !shares_hosts) continue;
    group.use_algorithm(std::string(name));
    // Some hand worlds that they do not fit on to another one.
    if (group.algorithm_for(op, 1, comm::DType::Float32) == name) result.emplace_back(name);
  }
  group.use_algorithm("");
  return result;
}

OperationMeter::OperationMeter(ProcessGroup& group, OpKind op, std::size_t count, std::string_view algorithm)
    : operation_(operation_of(op)),
      case_{.rank = group.rank(), .world_size = group.world_size(), .count = count},
      meter_(std::string(algorithm), [this, &group] {
        operation_.run(group, case_, {input_.data(), input_.size(), comm::DType::Float32},
                       {output_.data(), output_.size(), comm::DType::Float32});
        if (operation_.rooted) group.barrier();
      }) {
  const bench::Extents extents = operation_.extents(case_);
  input_.assign(extents.input, 1.0F);
  output_.assign(extents.output, 1.0F);
}

comm::Tuning tune(ProcessGroup& group, const TuneOptions& options) {
  if (group.world_size() < 2) throw std::runtime_error("a single rank has nothing to tune; give -n 2 or more");
  const auto begin = Clock::now();
  comm::Tuning tuning{.host = comm::host_name(), .date = utc_now(), .place = group.place(), .model = {}, .rows = {}};
  tuning.model = measure_network(group, options.seconds / 4);
  const std::vector<Cell> all = cells(group);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Cell& cell = all[i];
    const double left = agreed(group, options.seconds - seconds_since(begin));
    // Not in the midst of a size: what was measured for one algorithm must have been for its rivals, too.
    if (left <= 0 && i > 0 && cell.size != all[i - 1].size) break;
    const double budget = std::max(0.0, left) / static_cast<double>(all.size() - i);
    tuning.rows.push_back({cell.op, cell.algorithm, cell.count * kElementBytes, seconds_of(group, cell, budget)});
  }
  return tuning;
}

void print_tuning(std::ostream& out, const comm::Tuning& tuning) {
  const comm::NetworkModel& model = tuning.model;
  print(out, "# %d ranks on %d host(s) over %s; alpha %.1f us, %.2f GB/s, gamma %.3f ns/byte\n",
        tuning.place.world_size, tuning.place.hosts, tuning.place.transport.c_str(), model.alpha * 1e6,
        1e-9 / model.beta, model.gamma * 1e9);
  print(out, "%-16s %12s  %s\n", "operation", "bytes a rank", "us by algorithm, fastest first");
  for (auto row = tuning.rows.begin(); row != tuning.rows.end();) {
    const auto end = std::find_if(row, tuning.rows.end(),
                                  [&](const auto& other) { return other.op != row->op || other.bytes != row->bytes; });
    std::vector<comm::Tuning::Row> sorted(row, end);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    print(out, "%-16s %12zu ", std::string(comm::name(row->op)).c_str(), row->bytes);
    for (const auto& each : sorted) print(out, " %s %.1f", each.algorithm.c_str(), each.seconds * 1e6);
    out << "\n";
    row = end;
  }
}

}  // namespace tutti::tools
