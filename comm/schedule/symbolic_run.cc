#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/checker.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace tutti::comm {
namespace {

using Node = StepGraph::Node;

/// Expressions over ranks, numbered: 0 is nothing, 1 + r is rank r's contribution, the rest are sums of two.
class Expressions {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNothing = 0;

  explicit Expressions(int world_size) : times_(1 + static_cast<std::size_t>(world_size)) {
    for (std::size_t id = 0; id < times_.size(); ++id) {
      times_[id].resize(static_cast<std::size_t>(world_size));
      if (id > 0) times_[id][id - 1] = 1;
      runs_.push_back({static_cast<int>(id) - 1, static_cast<int>(id)});
    }
  }

  static Id of_rank(int rank) { return 1 + static_cast<Id>(rank); }

  Id sum(Id first, Id second) {
    const auto [entry, is_new] =
        sums_.try_emplace((std::uint64_t{first} << 32) | second, static_cast<Id>(times_.size()));
    if (is_new) {
      std::vector<std::uint32_t> total = times_[first];
      for (std::size_t rank = 0; rank < total.size(); ++rank) total[rank] += times_[second][rank];
      times_.push_back(std::move(total));
      const Run left = runs_[first], right = runs_[second];
      runs_.push_back(left.end == right.first && left.end > left.first && right.end > right.first
                          ? Run{left.first, right.end}
                          : Run{});
    }
    return entry->second;
  }

  bool is_everybody_once(Id id) const {
    return std::ranges::all_of(times_[id], [](std::uint32_t times) { return times == 1; });
  }

  /// For what is_everybody_once(): whether the operands stand in the order of their ranks, however they are bracketed.
  bool is_in_order(Id id) const { return runs_[id].end > runs_[id].first; }

  /// "ranks 0, 2 (3 times)"
  std::string text(Id id) const {
    if (id == kNothing) return "nothing";
    std::string text;
    for (std::size_t rank = 0; rank < times_[id].size(); ++rank) {
      if (times_[id][rank] == 0) continue;
      text += joined(text.empty() ? "ranks " : ", ", rank);
      if (times_[id][rank] > 1) text += joined(" (", times_[id][rank], " times)");
    }
    return text;
  }

 private:
  struct Run {  // operands are the ranks first .. end - 1 in this order; empty if they are in another
    int first = 0;
    int end = 0;
  };
  std::vector<Run> runs_;
  std::vector<std::vector<std::uint32_t>> times_;  // [expression][rank]: how often the rank's contribution is in it
  std::unordered_map<std::uint64_t, Id> sums_;
};

struct Symbol {
  std::uint32_t element = 0;
  Expressions::Id expression = Expressions::kNothing;
};

class Run {
 public:
  Run(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph, bool in_place)
      : problem_(problem), schedules_(schedules), graph_(graph), expressions_(problem.world_size) {
    for (int rank = 0; rank < problem.world_size; ++rank) memories_.push_back(initial_memory(rank, in_place));
  }

  void replay(std::span<const Node> order) {
    for (const Node node : order) {
      const Node receiver = graph_.partner(node) == StepGraph::kNone ? node : graph_.partner(node);
      load(node);
      store(receiver);
    }
    check_result();
  }

 private:
  using Memory = std::array<std::vector<Symbol>, 3>;

  Memory initial_memory(int rank, bool in_place) const {
    Memory memory;
    for (const BufferId id : {BufferId::Input, BufferId::Output, BufferId::Scratch}) {
      auto& cells = memory[static_cast<std::size_t>(id)];
      cells.resize(extent(problem_, rank, id, schedules_[static_cast<std::size_t>(rank)].scratch_count));
      for (std::size_t i = 0; is_filled(problem_, rank, id) && i < cells.size(); ++i) {
        cells[i] = {static_cast<std::uint32_t>(i), Expressions::of_rank(rank)};
      }
    }
    const auto offset = in_place ? in_place_offset(problem_, rank) : std::nullopt;
    if (offset) std::ranges::copy(memory[0], memory[1].begin() + static_cast<std::ptrdiff_t>(*offset));
    return memory;
  }

  const Step& step(Node node) const {
    return schedules_[static_cast<std::size_t>(graph_.rank(node))].steps[graph_.index(node)];
  }
  std::vector<Symbol>& cells(Node node, BufferId id) {
    return memories_[static_cast<std::size_t>(graph_.rank(node))][static_cast<std::size_t>(id)];
  }

  /// Reads the step's source into wire_.
  void load(Node node) {
    const Slice& slice = step(node).source;
    const auto& from = cells(node, slice.buffer);
    wire_.clear();
    for (std::size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
      if (from[i].expression == Expressions::kNothing) reads_nothing(node, slice.buffer, i);
      wire_.push_back(from[i]);
    }
  }

  /// Writes or reduces wire_ into the step's target.
  void store(Node node) {
    const Step& receiver = step(node);
    auto& into = cells(node, receiver.target.buffer);
    for (std::size_t i = 0; i < wire_.size(); ++i) {
      Symbol& cell = into[receiver.target.offset + i];
      const Symbol incoming = wire_[i];
      if (!reduces(receiver)) {
        cell = incoming;
        continue;
      }
      const std::size_t at = receiver.target.offset + i;
      if (cell.expression == Expressions::kNothing) reads_nothing(node, receiver.target.buffer, at);
      if (cell.element != incoming.element)
        refuse(graph_.text(node), ": at ", name(receiver.target.buffer), " element ", at, " reduces input element ",
               incoming.element, " into input element ", cell.element);
      cell.expression = receiver.incoming_first ? expressions_.sum(incoming.expression, cell.expression)
                                                : expressions_.sum(cell.expression, incoming.expression);
    }
  }

  [[noreturn]] void reads_nothing(Node node, BufferId buffer, std::size_t element) const {
    refuse(graph_.text(node), " reads ", name(buffer), " element ", element, ", which nothing has written");
  }

  /// What output element i at `rank` must hold, for the operations that only move data.
  Symbol expected(int rank, std::size_t i) const {
    switch (problem_.op) {
      case OpKind::AllToAll:
        return {static_cast<std::uint32_t>(static_cast<std::size_t>(rank) * problem_.count + i % problem_.count),
                Expressions::of_rank(static_cast<int>(i / problem_.count))};
      case OpKind::Gather:
      case OpKind::AllGather:
      case OpKind::GatherV:
      case OpKind::AllGatherV: {
        int owner = has_counts(problem_.op) ? 0 : static_cast<int>(i / problem_.count);
        while (block_of(problem_, owner + 1).offset <= i) ++owner;
        return {static_cast<std::uint32_t>(i - block_of(problem_, owner).offset), Expressions::of_rank(owner)};
      }
      case OpKind::AllToAllV: {
        Problem view = problem_;  // of the receiver, then of the sender
        view.rank = rank;
        int owner = 0;
        while (received_block(view, owner + 1).offset <= i) ++owner;
        const std::size_t within = i - received_block(view, owner).offset;
        view.rank = owner;
        return {static_cast<std::uint32_t>(sent_block(view, rank).offset + within), Expressions::of_rank(owner)};
      }
      case OpKind::Scatter:
      case OpKind::ScatterV:
        return {static_cast<std::uint32_t>(block_of(problem_, rank).offset + i), Expressions::of_rank(problem_.root)};
      default:
        return {static_cast<std::uint32_t>(i), Expressions::of_rank(problem_.root)};
    }
  }

  void check_result() {
    for (int rank = 0; rank < problem_.world_size; ++rank) {
      const auto& output = memories_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(BufferId::Output)];
      for (std::size_t i = 0; i < output.size(); ++i) {
        is_reduction(problem_.op) ? check_reduced(rank, i, output[i]) : check_moved(rank, i, output[i]);
      }
    }
  }

  void check_reduced(int rank, std::size_t i, const Symbol& found) {
    std::size_t element = i;
    if (problem_.op == OpKind::ReduceScatter || problem_.op == OpKind::ReduceScatterV)
      element += block_of(problem_, rank).offset;
    if (found.element != element || !expressions_.is_everybody_once(found.expression))
      refuse("rank ", rank, " output element ", i, ": expected input element ", element, " of every rank once, found ",
             text(found));
    if (problem_.in_order && !expressions_.is_in_order(found.expression))
      refuse("rank ", rank, " output element ", i, ": the operands do not stand in the order of their ranks");
    if (problem_.left_fold && found.expression != left_fold())
      refuse("rank ", rank, " output element ", i, ": the operands are not bracketed from the left");
    const auto& first = memories_[0][static_cast<std::size_t>(BufferId::Output)];
    if (problem_.op == OpKind::AllReduce && found.expression != first[i].expression)
      refuse("rank ", rank, " output element ", i,
             ": expected the same order of operands as at rank 0, found another one; bits may differ");
  }

  Expressions::Id left_fold() {
    Expressions::Id all = Expressions::of_rank(0);
    for (int rank = 1; rank < problem_.world_size; ++rank) all = expressions_.sum(all, Expressions::of_rank(rank));
    return all;
  }

  void check_moved(int rank, std::size_t i, const Symbol& found) const {
    const Symbol right = expected(rank, i);
    if (found.element != right.element || found.expression != right.expression)
      refuse("rank ", rank, " output element ", i, ": expected ", text(right), ", found ", text(found));
  }

  std::string text(const Symbol& symbol) const {
    if (symbol.expression == Expressions::kNothing) return "nothing";
    return joined("input element ", symbol.element, " of ", expressions_.text(symbol.expression));
  }

  const Problem& problem_;
  std::span<const Schedule> schedules_;
  const StepGraph& graph_;
  Expressions expressions_;
  std::vector<Memory> memories_;
  std::vector<Symbol> wire_;
};

}  // namespace

void symbolic_run(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph,
                  std::span<const Node> order, bool in_place) {
  Run(problem, schedules, graph, in_place).replay(order);
}

}  // namespace tutti::comm
