#include <tutti/tools/labs/real/timing.h>

#include <algorithm>
#include <functional>
#include <span>

namespace tutti::labs {
namespace {

using Doubles = std::vector<double>;

void add(void*, double* into, const double* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
}

/// Whole numbers, whose sums are exact in any order.
double element(int rank, std::size_t index) {
  return static_cast<double>(rank + 1) * static_cast<double>(index % 13 + 1);
}

double sum_of(std::size_t index, int world_size) {
  return static_cast<double>(world_size) * (world_size + 1) / 2 * static_cast<double>(index % 13 + 1);
}

/// One size: buffers, the solution's call and the library's, what the result should be.
struct Trial {
  Doubles input, output;
  std::function<void()> solution, library;
  std::function<double(std::size_t)> expected;
  bool has_result = true;  // on this rank
};

Trial trial_of(const std::string& function, std::size_t count, const Ranks& ranks) {
  Trial trial;
  const int root = 0, rank = ranks.rank(), world_size = ranks.world_size();
  trial.input.resize(count);
  trial.output.resize(count);
  for (std::size_t i = 0; i < count; ++i) trial.input[i] = element(rank, i);
  trial.expected = [=](std::size_t i) { return sum_of(i, world_size); };
  if (function == "broadcast") trial.expected = [](std::size_t i) { return element(0, i); };
  trial.has_result = function != "reduce" || rank == root;
  return trial;
}

void connect(Trial& trial, const std::string& function, comm::ProcessGroup& group, Ranks& ranks, Operator<double>& op) {
  const int root = 0;
  const bool at_root = ranks.rank() == root;
  const auto solution = [&ranks, &op, function, root](Doubles& first, Doubles* second) {
    detail::Call call;
    call.root = root;
    call.operation = &op;
    call.buffers.push_back({first.data(), first.size() * sizeof(double), sizeof(double)});
    if (second != nullptr) call.buffers.push_back({second->data(), second->size() * sizeof(double), sizeof(double)});
    call_solution(function, function == "barrier" ? detail::ElementType::UInt8 : detail::ElementType::Float64, ranks,
                  call);
  };
  if (function == "reduce") {
    if (!at_root) trial.output.clear();
    trial.solution = [&trial, solution] { solution(trial.input, &trial.output); };
    trial.library = [&trial, &group, root] {
      group.reduce(std::span<const double>(trial.input), std::span<double>(trial.output), comm::ReduceOp::Sum, root);
    };
    return;
  }
  trial.solution = [&trial, solution] { solution(trial.output, nullptr); };
  if (function == "broadcast") {
    trial.library = [&trial, &group, root] { group.broadcast(std::span<double>(trial.output), root); };
  } else if (function == "all_reduce") {
    trial.library = [&trial, &group] { group.all_reduce(std::span<double>(trial.output)); };
  } else {
    trial.library = [&group] { group.barrier(); };
  }
}

/// What the slowest rank took for `call`, which all ranks begin together.
double slowest(const std::function<void()>& call, Trial& trial, const std::string& function, comm::ProcessGroup& group,
               Ranks& ranks) {
  if (function != "reduce") trial.output = trial.input;
  group.barrier();
  const double begin = ranks.seconds();
  call();
  double took = ranks.seconds() - begin;
  group.all_reduce(std::span<double>(&took, 1), comm::ReduceOp::Max);
  return took;
}

bool everywhere(bool holds, comm::ProcessGroup& group) {
  double wrong = holds ? 0 : 1;
  group.all_reduce(std::span<double>(&wrong, 1), comm::ReduceOp::Max);
  return wrong == 0;
}

bool is_right(const Trial& trial) {
  if (!trial.has_result) return true;
  for (std::size_t i = 0; i < trial.output.size(); ++i) {
    if (trial.output[i] != trial.expected(i)) return false;
  }
  return true;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

CollectiveTime time_of(const std::string& function, std::size_t count, comm::ProcessGroup& group, Ranks& ranks,
                       const TimingOptions& options) {
  Operator<double> op(add, nullptr);
  Trial trial = trial_of(function, count, ranks);
  connect(trial, function, group, ranks, op);
  CollectiveTime result;
  result.bytes = count * sizeof(double);
  std::vector<double> own, library, ratios;
  const int turns = result.bytes <= 64 * 1024 ? 4 * options.repetitions : options.repetitions;
  for (int turn = -2; turn < turns; ++turn) {  // two to warm up
    const double mine = slowest(trial.solution, trial, function, group, ranks);
    result.is_right = result.is_right && (function == "barrier" || is_right(trial));
    const double theirs = slowest(trial.library, trial, function, group, ranks);
    if (turn < 0) continue;
    own.push_back(mine);
    library.push_back(theirs);
    ratios.push_back(mine / theirs);
  }
  result.seconds = median_of(own);
  result.library_seconds = median_of(library);
  result.ratio = median_of(ratios);
  result.is_right = everywhere(result.is_right, group);
  return result;
}

}  // namespace

bool is_timed_collective(const std::string& function) {
  return function == "broadcast" || function == "reduce" || function == "all_reduce" || function == "barrier";
}

bool call_solution(const std::string& function, detail::ElementType type, Ranks& ranks, detail::Call& call) {
  for (const detail::Registration* entry = detail::registrations; entry != nullptr; entry = entry->next) {
    if (function != entry->function || entry->type != type) continue;
    entry->run(ranks, call);
    return true;
  }
  return false;
}

std::vector<CollectiveTime> time_collective(const std::string& function, comm::ProcessGroup& group, Ranks& ranks,
                                            const TimingOptions& options) {
  std::vector<CollectiveTime> times;
  if (function == "barrier") {
    // Registered for one type only, and without data.
    times.push_back(time_of(function, 0, group, ranks, options));
    return times;
  }
  for (std::size_t count = 1; count * sizeof(double) <= options.max_bytes; count *= 8) {
    times.push_back(time_of(function, count, group, ranks, options));
  }
  return times;
}

}  // namespace tutti::labs
