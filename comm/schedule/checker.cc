#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/checker.h>

namespace tutti::comm {
namespace {

using Node = StepGraph::Node;

// --- Each step by itself

std::string check_slice(const Problem& problem, int rank, const Schedule& schedule, const Slice& slice) {
  const std::size_t size = extent(problem, rank, slice.buffer, schedule.scratch_count);
  if (slice.offset <= size && slice.count <= size - slice.offset) return {};
  return joined(" is out of bounds: ", name(slice.buffer), " has ", size, " elements");
}

std::string check_step(const Problem& problem, int rank, const Schedule& schedule, const Step& step) {
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
  return {};
}

std::string check_steps(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph) {
  for (Node node = 0; node < graph.size(); ++node) {
    const int rank = graph.rank(node);
    const std::string fault = check_step(problem, rank, schedules[static_cast<std::size_t>(rank)], graph.step(node));
    if (!fault.empty()) return graph.text(node) + fault;
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

bool overlap(const Slice& a, const Slice& b) {
  const bool both = a.count > 0 && b.count > 0;
  return a.buffer == b.buffer && both && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

bool is_copy_onto_itself(const Step& step) {
  return step.kind == Step::Kind::Copy && step.source.offset == step.target.offset && overlap(step.source, step.target);
}

bool conflict(const Step& a, const Step& b) {
  if (has_target(a) && has_target(b) && overlap(a.target, b.target)) return true;
  if (has_target(a) && has_source(b) && overlap(a.target, b.source)) return true;
  return has_source(a) && has_target(b) && overlap(a.source, b.target);
}

std::string check_accesses(std::size_t rank, const Schedule& schedule, const StepGraph& graph) {
  const Ancestors ancestors(schedule);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (is_copy_onto_itself(step)) continue;
    if (has_source(step) && has_target(step) && overlap(step.source, step.target)) {
      return graph.text(graph.node(rank, i)) + " has overlapping source and target";
    }
    for (std::size_t k = 0; k < i; ++k) {
      const Step& earlier = schedule.steps[k];
      if (!conflict(earlier, step) || is_copy_onto_itself(earlier) || ancestors.contains(i, k)) continue;
      return graph.text(graph.node(rank, i)) + " and " + graph.text(graph.node(rank, k)) +
             " touch the same elements in no order";
    }
  }
  return {};
}

// --- Barrier

/// A rank may leave when it has heard of every rank. A message tells what its sender knew for certain: itself and what
/// the steps before the send, by `after`, had heard.
std::string check_barrier(const StepGraph& graph, std::span<const Node> order) {
  using Ranks = std::vector<bool>;
  const std::size_t p = graph.ranks();
  const auto add = [](Ranks& to, const Ranks& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = to[i] || from[i];
  };
  std::vector<Ranks> heard(graph.size(), Ranks(p));  // by step
  std::vector<Ranks> known(p, Ranks(p));
  for (std::size_t rank = 0; rank < p; ++rank) known[rank][rank] = true;
  const auto complete = [&](Node node) -> Ranks& {
    const auto rank = static_cast<std::size_t>(graph.rank(node));
    heard[node][rank] = true;
    for (const std::uint32_t other : graph.step(node).after) add(heard[node], heard[graph.node(rank, other)]);
    return heard[node];
  };
  for (const Node node : order) {
    const Ranks& told = complete(node);
    const Node receiver = graph.partner(node);
    if (receiver == StepGraph::kNone) continue;
    Ranks& hears = complete(receiver);
    add(hears, told);
    add(known[static_cast<std::size_t>(graph.rank(receiver))], hears);
  }
  for (std::size_t rank = 0; rank < p; ++rank) {
    for (std::size_t other = 0; other < p; ++other) {
      if (!known[rank][other]) return joined("rank ", rank, " leaves the barrier without having heard of rank ", other);
    }
  }
  return {};
}

// --- All together

std::string check_problem(const Problem& problem, std::span<const Schedule> schedules) {
  if (problem.op == OpKind::Send || problem.op == OpKind::Recv) {
    return joined("a ", name(problem.op), " has no schedule to check");
  }
  if (problem.world_size < 1 || schedules.size() != static_cast<std::size_t>(problem.world_size)) {
    return joined("world size ", problem.world_size, " needs as many schedules, found ", schedules.size());
  }
  if (has_counts(problem.op) && problem.counts.size() != schedules.size()) {
    return joined("world size ", problem.world_size, " needs as many counts, found ", problem.counts.size());
  }
  if (problem.op == OpKind::AllToAllV && problem.counts.size() != schedules.size() * schedules.size()) {
    return joined("world size ", problem.world_size, " needs a table of as many rows and columns, found ",
                  problem.counts.size(), " counts");
  }
  if (problem.root < 0 || problem.root >= problem.world_size) {
    return joined("root ", problem.root, " is outside of 0 .. ", problem.world_size - 1);
  }
  return {};
}

std::string check_data(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph,
                       std::span<const Node> order, bool in_place) {
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    std::string fault = check_accesses(rank, schedules[rank], graph);
    if (!fault.empty()) return fault;
  }
  return symbolic_run(problem, schedules, graph, order, in_place);
}

/// The schedules as they run where Input lies in Output.
std::vector<Schedule> in_place(const Problem& problem, std::span<const Schedule> schedules) {
  std::vector<Schedule> result(schedules.begin(), schedules.end());
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const auto offset = in_place_offset(problem, rank);
    for (Step& step : result[static_cast<std::size_t>(rank)].steps) {
      Slice& source = step.source;
      if (offset && source.buffer == BufferId::Input)
        source = {BufferId::Output, *offset + source.offset, source.count};
    }
  }
  return result;
}

std::string check_all(const Problem& problem, std::span<const Schedule> schedules) {
  const StepGraph graph(schedules, problem.world_size);
  std::string fault = check_steps(problem, schedules, graph);
  if (!fault.empty()) return fault;
  const std::vector<Node> order = completion_order(graph);
  if (problem.op == OpKind::Barrier || problem.op == OpKind::Shutdown) return check_barrier(graph, order);

  fault = check_data(problem, schedules, graph, order, false);
  if (fault.empty() && (problem.op == OpKind::Reduce || problem.op == OpKind::AllGather)) {
    fault = check_data(problem, in_place(problem, schedules), graph, order, true);
    if (!fault.empty()) fault = "with input and output in the same memory: " + fault;
  }
  return fault;
}

}  // namespace

std::string check(const Problem& problem, std::span<const Schedule> schedules) {
  const std::string fault = check_problem(problem, schedules);
  if (!fault.empty()) return fault;
  try {
    return check_all(problem, schedules);
  } catch (const Error& error) {  // of the graph
    return error.what();
  }
}

}  // namespace tutti::comm
