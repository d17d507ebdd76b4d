#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/tools/labs/library_call.h>
#include <tutti/tools/labs/show/library_play.h>

#include <stdexcept>
#include <utility>

namespace tutti::labs::show {
namespace {

using comm::BufferId;
using comm::OpKind;
using comm::Problem;
using comm::Schedule;
using comm::Step;

constexpr std::size_t kWord = sizeof(std::uint64_t);

comm::Slice output(std::size_t count, std::size_t offset = 0) { return {BufferId::Output, offset, count}; }
comm::Slice input(std::size_t count) { return {BufferId::Input, 0, count}; }

std::string chosen(const Problem& problem, const std::string& algorithm, const comm::NetworkModel& network) {
  if (!algorithm.empty()) return algorithm;
  comm::Tuning tuning;
  tuning.model = network;
  return std::string(comm::algorithms::choose(problem, kWord, &tuning));
}

/// Appends `part`, whose Output begins at element `offset` of the whole.
void append(Schedule& whole, const Schedule& part, std::size_t offset) {
  const auto first = static_cast<std::uint32_t>(whole.steps.size());
  const auto moved = [&](comm::Slice slice) {
    slice.offset += slice.buffer == BufferId::Scratch ? whole.scratch_count : offset;
    return slice;
  };
  for (Step step : part.steps) {
    step.source = moved(step.source);
    step.target = moved(step.target);
    for (std::uint32_t& earlier : step.after) earlier += first;
    whole.steps.push_back(std::move(step));
  }
  whole.scratch_count += part.scratch_count;
  whole.algorithm = part.algorithm;
}

/// Elements of each bucket: tensors one after the other, until the next one would make it larger than it may be.
std::vector<std::size_t> buckets(const Case& posed) {
  std::vector<std::size_t> result;
  std::size_t open = 0;
  for (const std::size_t count : posed.counts) {
    if (open > 0 && (open + count) * kWord > posed.parameter) result.push_back(std::exchange(open, 0));
    open += count;
  }
  if (open > 0) result.push_back(open);
  return result;
}

LibraryRun in_buckets(const Case& posed, const std::string& algorithm, const comm::NetworkModel& network) {
  LibraryRun run;
  run.schedules.resize(static_cast<std::size_t>(posed.world_size));
  std::size_t offset = 0;
  for (const std::size_t count : buckets(posed)) {
    Case one = posed;
    one.count = count;
    Problem problem = problem_of(OpKind::AllReduce, one);
    run.algorithm = chosen(problem, algorithm, network);
    for (problem.rank = 0; problem.rank < posed.world_size; ++problem.rank) {
      append(run.schedules[static_cast<std::size_t>(problem.rank)],
             comm::algorithms::select(problem, kWord, run.algorithm), offset);
    }
    offset += count;
  }
  Case all = posed;
  all.count = offset;
  run.bound_seconds = comm::lower_bound_seconds(problem_of(OpKind::AllReduce, all), kWord, network);
  for (std::size_t i = 0, begin = 0; i < posed.counts.size(); begin += posed.counts[i++]) {
    run.buffers.push_back({"tensors[" + std::to_string(i) + "]", output(posed.counts[i], begin), true});
  }
  return run;
}

/// What sendrecv() does: both at once, so that nobody waits for a neighbour that waits itself.
LibraryRun shifted(const Case& posed, const comm::NetworkModel& network) {
  LibraryRun run;
  run.algorithm = "sendrecv";
  for (int rank = 0; rank < posed.world_size; ++rank) {
    Schedule schedule;
    if (posed.world_size == 1) {
      schedule.steps.push_back({Step::Kind::Copy, -1, input(posed.count), output(posed.count), false, {}});
    } else {
      const int next = (rank + 1) % posed.world_size;
      const int previous = (rank + posed.world_size - 1) % posed.world_size;
      schedule.steps.push_back({Step::Kind::Send, next, input(posed.count), {}, false, {}});
      schedule.steps.push_back({Step::Kind::Recv, previous, {}, output(posed.count), false, {}});
    }
    run.schedules.push_back(std::move(schedule));
  }
  if (posed.world_size > 1) run.bound_seconds = network.message_seconds(static_cast<double>(posed.count * kWord));
  run.buffers = {{"outgoing", input(posed.count), true}, {"incoming", output(posed.count)}};
  return run;
}

std::vector<NamedSlice> buffers_of(OpKind op, std::size_t count) {
  switch (op) {
    case OpKind::Broadcast:
      return {{"data", output(count), true}};
    case OpKind::Reduce:
      return {{"input", input(count), true}, {"output", output(count), false, true}};
    case OpKind::AllReduce:
      return {{"data", output(count), true}};
    default:
      return {};
  }
}

}  // namespace

LibraryRun library_run(const std::string& function, const Case& posed, const std::string& algorithm) {
  if (!library_can_play(function)) throw std::invalid_argument("the library has no schedule for " + function + "()");
  const comm::NetworkModel network = network_model(posed.network);
  if (function == "shift") return shifted(posed, network);
  if (function == "all_reduce_many") return in_buckets(posed, algorithm, network);
  LibraryRun run;
  Problem problem = problem_of(*operation_of(function), posed);
  run.algorithm = chosen(problem, algorithm, network);
  for (problem.rank = 0; problem.rank < posed.world_size; ++problem.rank) {
    run.schedules.push_back(comm::algorithms::select(problem, kWord, run.algorithm));
  }
  run.bound_seconds = comm::lower_bound_seconds(problem, kWord, network);
  run.buffers = buffers_of(problem.op, problem.count);
  return run;
}

}  // namespace tutti::labs::show
