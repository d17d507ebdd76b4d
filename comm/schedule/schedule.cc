#include <tutti/comm/base/text.h>
#include <tutti/comm/schedule/schedule.h>

namespace tutti::comm {
namespace {

// In the order of the values.
constexpr std::string_view kKinds[] = {"send", "recv", "recv_reduce", "copy", "reduce"};
constexpr std::string_view kBuffers[] = {"input", "output", "scratch"};

/// Block `peer` of blocks whose lengths are `count_of(0)`, `count_of(1)`, ...
template <typename CountOf>
Range block_among(const Problem& problem, int peer, const CountOf& count_of) {
  Range block;
  for (int before = 0; before < peer; ++before) block.offset += count_of(static_cast<std::size_t>(before));
  if (peer < problem.world_size) block.count = count_of(static_cast<std::size_t>(peer));
  return block;
}

}  // namespace

Range block_of(const Problem& problem, int rank) {
  if (has_counts(problem.op)) return block_among(problem, rank, [&](std::size_t i) { return problem.counts[i]; });
  return {static_cast<std::size_t>(rank) * problem.count, rank < problem.world_size ? problem.count : 0};
}

Range sent_block(const Problem& problem, int peer) {
  const std::size_t row = problem.recv_counts.empty()
                              ? static_cast<std::size_t>(problem.rank) * static_cast<std::size_t>(problem.world_size)
                              : 0;
  return block_among(problem, peer, [&](std::size_t to) { return problem.counts[row + to]; });
}

Range received_block(const Problem& problem, int peer) {
  const auto p = static_cast<std::size_t>(problem.world_size), self = static_cast<std::size_t>(problem.rank);
  return block_among(problem, peer, [&](std::size_t from) {
    return problem.recv_counts.empty() ? problem.counts[from * p + self] : problem.recv_counts[from];
  });
}

std::size_t extent(const Problem& problem, int rank, BufferId buffer, std::size_t scratch_count) {
  if (buffer == BufferId::Scratch) return scratch_count;
  const bool is_input = buffer == BufferId::Input;
  if (problem.op == OpKind::AllToAllV) {
    Problem own_view = problem;
    own_view.rank = rank;
    return (is_input ? sent_block(own_view, problem.world_size) : received_block(own_view, problem.world_size)).offset;
  }
  const Form form = form_of(problem.op);
  return elements_of(is_input ? form.input : form.output, rank == problem.root, block_of(problem, rank).count,
                     block_of(problem, problem.world_size).offset);
}

bool is_filled(const Problem& problem, int rank, BufferId buffer) {
  if (buffer == BufferId::Scratch) return false;
  if (problem.op == OpKind::AllReduce) return buffer == BufferId::Output;
  if (problem.op == OpKind::Broadcast) return buffer == BufferId::Output && rank == problem.root;
  return buffer == BufferId::Input;
}

std::optional<std::size_t> in_place_offset(const Problem& problem, int rank) {
  if (problem.op == OpKind::Reduce && rank == problem.root) return 0;
  if (problem.op == OpKind::AllGather) return block_of(problem, rank).offset;
  return std::nullopt;
}

std::string describe(int rank, std::size_t index, const Step& step) {
  return joined("step ", index, " at rank ", rank, " (", kKinds[static_cast<std::size_t>(step.kind)],
                has_source(step) ? " of " + describe(step.source) : "",
                sends(step) ? joined(" to rank ", step.peer) : "",
                receives(step) ? joined(" from rank ", step.peer) : "",
                has_target(step) ? " into " + describe(step.target) : "", ")");
}

std::string describe(const Slice& slice) {
  return joined(name(slice.buffer), "[", slice.offset, ", ", slice.offset + slice.count, ")");
}

std::string_view name(BufferId buffer) { return kBuffers[static_cast<std::size_t>(buffer)]; }

}  // namespace tutti::comm
