#include <tutti/comm/base/format.h>
#include <tutti/comm/schedule/schedule.h>

namespace tutti::comm {
namespace {

std::string_view name(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::Send:
      return "send";
    case Step::Kind::Recv:
      return "recv";
    case Step::Kind::RecvReduce:
      return "recv_reduce";
    case Step::Kind::Copy:
      return "copy";
    case Step::Kind::Reduce:
      return "reduce";
  }
  return "?";
}

}  // namespace

std::size_t extent(const Problem& problem, int rank, BufferId buffer, std::size_t scratch_count) {
  if (buffer == BufferId::Scratch) return scratch_count;
  const bool is_input = buffer == BufferId::Input;
  const bool is_root = rank == problem.root;
  const std::size_t one = block_of(problem, rank).count;
  const std::size_t all = block_of(problem, problem.world_size).offset;
  switch (problem.op) {
    case OpKind::Broadcast:
    case OpKind::AllReduce:
      return is_input ? 0 : one;
    case OpKind::Reduce:
      return is_input || is_root ? one : 0;
    case OpKind::Gather:
    case OpKind::GatherV:
      return is_input ? one : (is_root ? all : 0);
    case OpKind::AllGather:
    case OpKind::AllGatherV:
    case OpKind::Split:
      return is_input ? one : all;
    case OpKind::Scatter:
    case OpKind::ScatterV:
      return is_input ? (is_root ? all : 0) : one;
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterV:
      return is_input ? all : one;
    case OpKind::AllToAll:
      return all;
    case OpKind::AllToAllV: {
      Problem own_view = problem;
      own_view.rank = rank;
      return (is_input ? sent_block(own_view, problem.world_size) : received_block(own_view, problem.world_size))
          .offset;
    }
    case OpKind::Barrier:
    case OpKind::Shutdown:
    case OpKind::Send:
    case OpKind::Recv:
      return 0;
  }
  return 0;
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
  TextStream text;
  text << "step " << index << " at rank " << rank << " (" << name(step.kind);
  if (has_source(step)) text << " of " << describe(step.source);
  if (sends(step)) text << " to rank " << step.peer;
  if (receives(step)) text << " from rank " << step.peer;
  if (has_target(step)) text << " into " << describe(step.target);
  text << ')';
  return text.str();
}

std::string describe(const Slice& slice) {
  TextStream text;
  text << name(slice.buffer) << '[' << slice.offset << ", " << slice.offset + slice.count << ')';
  return text.str();
}

std::string_view name(BufferId buffer) {
  switch (buffer) {
    case BufferId::Input:
      return "input";
    case BufferId::Output:
      return "output";
    case BufferId::Scratch:
      return "scratch";
  }
  return "?";
}

}  // namespace tutti::comm
