#include <tutti/comm/base/format.h>
#include <tutti/comm/schedule/checker.h>
#include <tutti/comm/schedule/completion_order.h>
#include <tutti/comm/schedule/schedule.h>
#include <tutti/comm/schedule/symbolic_run.h>

#include <cstdint>

namespace tutti::comm {
namespace {

template <typename... Parts>
std::string text(const Parts&... parts) {
  TextStream stream;
  (stream << ... << parts);
  return stream.str();
}

// --- Each step by itself

std::string check_slice(const Problem& problem, int rank, const Schedule& schedule, const Slice& slice) {
  const std::size_t size = extent(problem, rank, slice.buffer, schedule.scratch_count);
  if (slice.offset <= size && slice.count <= size - slice.offset) return {};
  return text(" is out of bounds: ", name(slice.buffer), " has ", size, " elements");
}

std::string check_step(const Problem& problem, int rank, const Schedule& schedule, std::size_t index) {
  const Step& step = schedule.steps[index];
  if (sends(step) || receives(step)) {
    if (step.peer < 0 || step.peer >= problem.world_size) {
      return text(" names a peer outside of 0 .. ", problem.world_size - 1);
    }
    if (step.peer == rank) return " talks to itself";
  }
  if (has_source(step)) {
    std::string fault = check_slice(problem, rank, schedule, step.source);
    if (!fault.empty()) return fault;
  }
  if (has_target(step)) {
    std::string fault = check_slice(problem, rank, schedule, step.target);
    if (!fault.empty()) return fault;
    if (step.target.buffer == BufferId::Input) return " writes to input";
  }
  if (has_source(step) && has_target(step) && step.source.count != step.target.count) {
    return " has source and target of different counts";
  }
  for (const std::uint32_t other : step.after) {
    if (other >= index) return text(" comes after step ", other, ", which is not an earlier one");
  }
  return {};
}

std::string check_steps(const Problem& problem, std::span<const Schedule> schedules) {
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const std::string fault = check_step(problem, rank, schedule, i);
      if (!fault.empty()) return describe(rank, i, schedule.steps[i]) + fault;
    }
  }
  return {};
}

// --- Memory accesses of one rank

/// For each step the set of steps that are complete before it starts, as bits.
class Ancestors {
 public:
  explicit Ancestors(const Schedule& schedule)
      : words_((schedule.steps.size() + 63) / 64), bits_(schedule.steps.size() * words_) {
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      for (const std::uint32_t other : schedule.steps[i].after) {
        for (std::size_t w = 0; w < words_; ++w) bits_[i * words_ + w] |= bits_[other * words_ + w];
        bits_[i * words_ + other / 64] |= std::uint64_t{1} << (other % 64);
      }
    }
  }

  bool contains(std::size_t step, std::size_t earlier) const {
    return (bits_[step * words_ + earlier / 64] >> (earlier % 64) & 1) != 0;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

/// With `in_place`, Input and Output are one memory.
bool overlap(const Slice& a, const Slice& b, bool in_place) {
  const bool same_memory =
      a.buffer == b.buffer || (in_place && a.buffer != BufferId::Scratch && b.buffer != BufferId::Scratch);
  const bool both = a.count > 0 && b.count > 0;
  return same_memory && both && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

bool is_copy_onto_itself(const Step& step, bool in_place) {
  return step.kind == Step::Kind::Copy && step.source.offset == step.target.offset &&
         overlap(step.source, step.target, in_place);
}

bool conflict(const Step& a, const Step& b, bool in_place) {
  if (has_target(a) && has_target(b) && overlap(a.target, b.target, in_place)) return true;
  if (has_target(a) && has_source(b) && overlap(a.target, b.source, in_place)) return true;
  return has_source(a) && has_target(b) && overlap(a.source, b.target, in_place);
}

std::string check_accesses(int rank, const Schedule& schedule, bool in_place) {
  const Ancestors ancestors(schedule);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (is_copy_onto_itself(step, in_place)) continue;
    if (has_source(step) && has_target(step) && overlap(step.source, step.target, in_place)) {
      return describe(rank, i, step) + " has overlapping source and target";
    }
    for (std::size_t k = 0; k < i; ++k) {
      const Step& earlier = schedule.steps[k];
      if (!conflict(earlier, step, in_place) || is_copy_onto_itself(earlier, in_place)) continue;
      if (ancestors.contains(i, k)) continue;
      return describe(rank, i, step) + " and " + describe(rank, k, earlier) + " touch the same elements in no order";
    }
  }
  return {};
}

// --- Barrier

/// A rank may leave when it has heard of every rank. A message tells what its sender knew for certain: itself and what
/// the steps before the send, by `after`, had heard.
std::string check_barrier(std::span<const Schedule> schedules, std::span<const Event> events) {
  using Ranks = std::vector<bool>;
  const std::size_t p = schedules.size();
  const auto add = [](Ranks& to, const Ranks& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = to[i] || from[i];
  };
  std::vector<std::vector<Ranks>> heard(p);  // [rank][step]
  std::vector<Ranks> known(p, Ranks(p));
  for (std::size_t rank = 0; rank < p; ++rank) {
    heard[rank].resize(schedules[rank].steps.size(), Ranks(p));
    known[rank][rank] = true;
  }
  const auto complete = [&](int rank, std::uint32_t index) -> Ranks& {
    const auto r = static_cast<std::size_t>(rank);
    heard[r][index][r] = true;
    for (const std::uint32_t other : schedules[r].steps[index].after) add(heard[r][index], heard[r][other]);
    return heard[r][index];
  };
  for (const Event& event : events) {
    const Ranks& told = complete(event.rank, event.step);
    if (event.peer < 0) continue;
    Ranks& hears = complete(event.peer, event.peer_step);
    add(hears, told);
    add(known[static_cast<std::size_t>(event.peer)], hears);
  }
  for (std::size_t rank = 0; rank < p; ++rank) {
    for (std::size_t other = 0; other < p; ++other) {
      if (!known[rank][other]) return text("rank ", rank, " leaves the barrier without having heard of rank ", other);
    }
  }
  return {};
}

// --- All together

std::string check_problem(const Problem& problem, std::span<const Schedule> schedules) {
  if (problem.op == OpKind::Send || problem.op == OpKind::Recv) {
    return text("a ", name(problem.op), " has no schedule to check");
  }
  if (problem.world_size < 1 || schedules.size() != static_cast<std::size_t>(problem.world_size)) {
    return text("world size ", problem.world_size, " needs as many schedules, found ", schedules.size());
  }
  if (has_counts(problem.op) && problem.counts.size() != schedules.size()) {
    return text("world size ", problem.world_size, " needs as many counts, found ", problem.counts.size());
  }
  if (problem.op == OpKind::AllToAllV && problem.counts.size() != schedules.size() * schedules.size()) {
    return text("world size ", problem.world_size, " needs a table of as many rows and columns, found ",
                problem.counts.size(), " counts");
  }
  if (problem.root < 0 || problem.root >= problem.world_size) {
    return text("root ", problem.root, " is outside of 0 .. ", problem.world_size - 1);
  }
  return {};
}

std::string check_data(const Problem& problem, std::span<const Schedule> schedules, std::span<const Event> events,
                       bool in_place) {
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const bool shared = in_place && rank == problem.root;
    std::string fault = check_accesses(rank, schedules[static_cast<std::size_t>(rank)], shared);
    if (!fault.empty()) return fault;
  }
  return symbolic_run(problem, schedules, events, in_place);
}

}  // namespace

std::string check(const Problem& problem, std::span<const Schedule> schedules) {
  std::string fault = check_problem(problem, schedules);
  if (fault.empty()) fault = check_steps(problem, schedules);
  if (!fault.empty()) return fault;
  const CompletionOrder order = completion_order(schedules);
  if (!order.fault.empty()) return order.fault;
  if (problem.op == OpKind::Barrier || problem.op == OpKind::Shutdown) return check_barrier(schedules, order.events);

  fault = check_data(problem, schedules, order.events, false);
  if (fault.empty() && problem.op == OpKind::Reduce) {
    fault = check_data(problem, schedules, order.events, true);
    if (!fault.empty()) fault = "with input and output in the same memory: " + fault;
  }
  return fault;
}

}  // namespace tutti::comm
