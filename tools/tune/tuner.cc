#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/tools/tune/tuner.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <ctime>
#include <stdexcept>

namespace tutti::tools {
namespace {

using comm::OpKind;
using comm::ProcessGroup;
using comm::ReduceOp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kElementBytes = sizeof(float);
constexpr std::size_t kMostCalls = 200;
constexpr std::size_t kFewestCalls = 3;
constexpr std::size_t kBarrierFromBytes = 32 * 1024;  // below, ranks that all wait for all follow each other directly
constexpr double kStartupUpToBytes = 1 << 14;         // messages so short that the time until all are awake is seen
constexpr double kShortest = 1e-7;                    // seconds: nothing took less

constexpr std::size_t kMessageBytes[] = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
constexpr std::size_t kSizes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22};  // of one rank's or of the whole array
constexpr OpKind kOps[] = {OpKind::AllReduce,     OpKind::Broadcast, OpKind::Reduce, OpKind::AllGather,
                           OpKind::ReduceScatter, OpKind::AllToAll,  OpKind::Gather, OpKind::Scatter};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double longest(ProcessGroup& group, double seconds) {
  group.all_reduce(std::span<double>(&seconds, 1), ReduceOp::Max);
  return seconds;
}

/// The median over calls of the longest time of any rank.
double median_of_longest(ProcessGroup& group, std::vector<double>& seconds) {
  group.all_reduce(std::span<double>(seconds), ReduceOp::Max);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

/// Calls `body` once to warm up, and then as often as `budget` allows.
template <typename Body>
double median_seconds(ProcessGroup& group, double budget, Body&& body) {
  body();
  const double first = longest(group, body());
  const double fitting = budget / std::max(first, kShortest);
  const auto calls = static_cast<std::size_t>(std::clamp(fitting, double{kFewestCalls}, double{kMostCalls}));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < calls; ++i) seconds.push_back(body());
  return median_of_longest(group, seconds);
}

/// Seconds per byte, with all ranks at it.
double measure_gamma(ProcessGroup& group, double budget) {
  std::vector<float> sum(1 << 16);
  const std::vector<float> incoming(sum.size(), 1.0F);
  const double seconds = median_seconds(group, budget, [&] {
    group.barrier();
    const auto begin = Clock::now();
    comm::reduce_into(sum.data(), incoming.data(), sum.size(), comm::DType::Float32, ReduceOp::Sum, false);
    return seconds_since(begin);
  });
  return seconds / static_cast<double>(sum.size() * kElementBytes);
}

/// A ring of one pass (all_gather) and of two (all_reduce, without its sums) with messages of so many bytes.
struct Passes {
  double bytes;
  double once;
  double twice;
};

std::vector<Passes> measure_passes(ProcessGroup& group, double gamma, double budget) {
  const double each = budget / (2 * std::size(kMessageBytes));
  const auto p = static_cast<std::size_t>(group.world_size());
  std::vector<Passes> result;
  for (const std::size_t bytes : kMessageBytes) {
    const std::size_t count = bytes / kElementBytes;
    const double once = time_of(group, operation_of(OpKind::AllGather), count, "ring", each);
    const double twice = time_of(group, operation_of(OpKind::AllReduce), count * p, "ring", each);
    const double sums = static_cast<double>(p - 1) * gamma * static_cast<double>(bytes);
    result.push_back({static_cast<double>(bytes), once, std::max(once, twice - sums)});
  }
  return result;
}

/// once = startup + messages and twice = startup + 2 messages, where messages are short; the median of the sizes.
double startup_of(const std::vector<Passes>& passes) {
  std::vector<double> startups;
  for (const Passes& pass : passes) {
    if (pass.bytes <= kStartupUpToBytes) startups.push_back(std::clamp(2 * pass.once - pass.twice, 0.0, pass.once));
  }
  std::sort(startups.begin(), startups.end());
  return startups[startups.size() / 2];
}

comm::NetworkModel measure_model(ProcessGroup& group, double budget) {
  const double rounds = group.world_size() - 1;
  comm::NetworkModel model;
  model.gamma = measure_gamma(group, budget / 10);
  const auto passes = measure_passes(group, model.gamma, budget * 9 / 10);
  model.startup = startup_of(passes);
  model.measured.push_back({0, 0});
  for (const Passes& pass : passes) {
    const double all_messages = pass.once + pass.twice - 2 * model.startup;
    model.measured.push_back({pass.bytes, std::max(kShortest, all_messages / (3 * rounds))});
  }
  // A disturbance only ever adds time: a message takes no longer than a longer one. The shortest stands for empty ones.
  for (std::size_t i = model.measured.size() - 1; i-- > 0;) {
    model.measured[i].seconds = std::min(model.measured[i].seconds, model.measured[i + 1].seconds);
  }
  model.measured[0].seconds = model.measured[1].seconds;
  // The formulas use the curve; these two say the same in short.
  const auto& longest_message = model.measured.back();
  model.alpha = model.local_alpha = model.measured.front().seconds;
  model.beta = model.local_beta = std::max(0.0, longest_message.seconds - model.alpha) / longest_message.bytes;
  return model;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown-host";
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

/// What rank 0 says.
double agreed(ProcessGroup& group, double value) {
  group.broadcast(std::span<double>(&value, 1), 0);
  return value;
}

}  // namespace

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

double time_of(ProcessGroup& group, const bench::Operation& operation, std::size_t count, std::string_view algorithm,
               double budget) {
  const bench::Case c{.rank = group.rank(), .world_size = group.world_size(), .count = count};
  const bench::Extents extents = operation.extents(c);
  std::vector<float> input(extents.input, 1.0F);
  std::vector<float> output(extents.output, 1.0F);
  const comm::Buffer from{input.data(), input.size(), comm::DType::Float32};
  const comm::Buffer to{output.data(), output.size(), comm::DType::Float32};
  const bool meets_after = operation.rooted;
  const bool meets_before = meets_after || count * kElementBytes >= kBarrierFromBytes;
  group.use_algorithm(std::string(algorithm));
  const double seconds = median_seconds(group, budget, [&] {
    if (meets_before) group.barrier();
    const auto begin = Clock::now();
    operation.run(group, c, from, to);
    if (meets_after) group.barrier();
    return seconds_since(begin);
  });
  group.use_algorithm("");
  return std::max(kShortest, seconds);
}

comm::Tuning tune(ProcessGroup& group, const TuneOptions& options) {
  if (group.world_size() < 2) throw std::runtime_error("a single rank has nothing to tune; give -n 2 or more");
  const auto begin = Clock::now();
  comm::Tuning tuning{.host = host_name(), .date = utc_now(), .place = group.place(), .model = {}, .rows = {}};
  tuning.model = measure_model(group, options.algorithms ? options.seconds / 4 : options.seconds);
  if (!options.algorithms) return tuning;
  const std::vector<Cell> all = cells(group);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Cell& cell = all[i];
    const double left = agreed(group, options.seconds - seconds_since(begin));
    // Not in the midst of a size: what was measured for one algorithm must have been for its rivals, too.
    if (left <= 0 && i > 0 && cell.size != all[i - 1].size) break;
    const double budget = std::max(0.0, left) / static_cast<double>(all.size() - i) / 2;
    const double seconds = time_of(group, operation_of(cell.op), cell.count, cell.algorithm, budget);
    tuning.rows.push_back({cell.op, cell.algorithm, cell.count * kElementBytes, seconds});
  }
  return tuning;
}

}  // namespace tutti::tools
