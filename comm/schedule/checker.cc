#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/checker.h>

namespace tutti::comm {
namespace {

using Node = StepGraph::Node;

// What follows throws InvalidArgument with the first fault, as StepGraph does.

// --- Each step by itself

void check_step(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph, Node node) {
  const int rank = graph.rank(node);
  const Step& step = graph.step(node);
  const auto check_slice = [&](const Slice& slice) {
    const std::size_t scratch_count = schedules[static_cast<std::size_t>(rank)].scratch_count;
    const std::size_t size = extent(problem, rank, slice.buffer, scratch_count);
    if (slice.offset > size || slice.count > size - slice.offset)
      refuse(graph.text(node), " is out of bounds: ", name(slice.buffer), " has ", size, " elements");
  };
  if (has_source(step)) check_slice(step.source);
  if (has_target(step)) check_slice(step.target);
  if (has_target(step) && step.target.buffer == BufferId::Input) refuse(graph.text(node), " writes to input");
  if (has_source(step) && has_target(step) && step.source.count != step.target.count)
    refuse(graph.text(node), " has source and target of different counts");
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

void check_accesses(std::size_t rank, const Schedule& schedule, const StepGraph& graph) {
  const Ancestors ancestors(schedule);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (is_copy_onto_itself(step)) continue;
    if (has_source(step) && has_target(step) && overlap(step.source, step.target))
      refuse(graph.text(graph.node(rank, i)), " has overlapping source and target");
    for (std::size_t k = 0; k < i; ++k) {
      const Step& earlier = schedule.steps[k];
      if (!conflict(earlier, step) || is_copy_onto_itself(earlier) || ancestors.contains(i, k)) continue;
      refuse(graph.text(graph.node(rank, i)), " and ", graph.text(graph.node(rank, k)),
             " touch the same elements in no order");
    }
  }
}

// --- Barrier

/// A rank may leave when it has heard of every rank. A message tells what its sender knew for certain: itself and what
/// the steps before the send, by `after`, had heard.
void check_barrier(const StepGraph& graph, std::span<const Node> order) {
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
  for (std::size_t rank = 0; rank < p; ++rank)
    for (std::size_t other = 0; other < p; ++other)
      if (!known[rank][other]) refuse("rank ", rank, " leaves the barrier without having heard of rank ", other);
}

// --- All together

void check_problem(const Problem& problem, std::span<const Schedule> schedules) {
  if (is_message(problem.op)) refuse("a ", name(problem.op), " has no schedule to check");
  if (problem.world_size < 1 || schedules.size() != static_cast<std::size_t>(problem.world_size))
    refuse("world size ", problem.world_size, " needs as many schedules, found ", schedules.size());
  if (has_counts(problem.op) && problem.counts.size() != schedules.size())
    refuse("world size ", problem.world_size, " needs as many counts, found ", problem.counts.size());
  if (problem.op == OpKind::AllToAllV && problem.counts.size() != schedules.size() * schedules.size())
    refuse("world size ", problem.world_size, " needs a table of as many rows and columns, found ",
           problem.counts.size(), " counts");
  if (problem.root < 0 || problem.root >= problem.world_size)
    refuse("root ", problem.root, " is outside of 0 .. ", problem.world_size - 1);
}

void check_data(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph,
                std::span<const Node> order, bool in_place) {
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) check_accesses(rank, schedules[rank], graph);
  symbolic_run(problem, schedules, graph, order, in_place);
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

void check_all(const Problem& problem, std::span<const Schedule> schedules) {
  check_problem(problem, schedules);
  const StepGraph graph(schedules, problem.world_size);
  for (Node node = 0; node < graph.size(); ++node) check_step(problem, schedules, graph, node);
  const std::vector<Node> order = completion_order(graph);
  if (problem.op == OpKind::Barrier || problem.op == OpKind::Shutdown) return check_barrier(graph, order);

  check_data(problem, schedules, graph, order, false);
  if (problem.op != OpKind::Reduce && problem.op != OpKind::AllGather) return;
  try {
    check_data(problem, in_place(problem, schedules), graph, order, true);
  } catch (const Error& fault) {
    refuse("with input and output in the same memory: ", fault.what());
  }
}

}  // namespace

std::string check(const Problem& problem, std::span<const Schedule> schedules) {
  try {
    check_all(problem, schedules);
    return {};
  } catch (const Error& fault) {
    return fault.what();
  }
}

}  // namespace tutti::comm
