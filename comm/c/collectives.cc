// Collectives.
#include <tutti/comm/base/counts.h>
#include <tutti/comm/c/boundary.h>
#include <tutti/comm/c/tutti.h>

using namespace tutti::comm;
using namespace tutti::comm::c;

namespace {

constexpr std::size_t kNone = 0;

/// The counts of a v-form, one for each rank, and what follows from them.
struct Counts {
  Counts(const ProcessGroup& group, const std::size_t* counts, const char* what)
      : each((require(counts, what), counts), static_cast<std::size_t>(group.world_size())),
        own(each[static_cast<std::size_t>(group.rank())]) {
    for (const std::size_t count : each) {
      if (count >= kMaxTotalCount - total)
        throw Error(ErrorCode::InvalidArgument,
                    std::string(what) + " add up to 2^40 elements or more; split the operation");
      total += count;
    }
  }

  std::span<const std::size_t> each;
  std::size_t own;
  std::size_t total = 0;
};

/// `buffer` at the root; nothing elsewhere.
template <typename AnyBuffer>
AnyBuffer at_root(const ProcessGroup& group, int root, AnyBuffer buffer) {
  if (group.rank() != root) {
    buffer.data = nullptr;
    buffer.count = kNone;
  }
  return buffer;
}

/// `inputs` and `outputs`: blocks of each, 1 or one for each rank; nothing where only the root has them.
Collective call_of(OpKind op, const ProcessGroup& ranks, const void* input, int inputs, void* output, int outputs,
                   size_t count, tutti_dtype dtype, tutti_op reduction = TUTTI_SUM, int root = 0) {
  const ConstBuffer in = input_of(input, count, dtype, inputs);
  const Buffer out = output_of(output, count, dtype, outputs);
  return {.op = op,
          .input = op == OpKind::Scatter ? at_root(ranks, root, in) : in,
          .output = op == OpKind::Reduce || op == OpKind::Gather ? at_root(ranks, root, out) : out,
          .root = root,
          .reduction = reduction_of(reduction)};
}

/// gather_v and all_gather_v.
Collective gather_v_call(OpKind op, const ProcessGroup& ranks, const void* block, void* whole, const size_t* counts,
                         tutti_dtype dtype, int root = 0) {
  const Counts all(ranks, counts, "counts");
  const Buffer output = output_of(whole, all.total, dtype);
  return {.op = op,
          .input = input_of(block, all.own, dtype),
          .output = op == OpKind::GatherV ? at_root(ranks, root, output) : output,
          .root = root,
          .counts = all.each};
}

/// scatter_v and reduce_scatter_v.
Collective scatter_v_call(OpKind op, const ProcessGroup& ranks, const void* whole, void* block, const size_t* counts,
                          tutti_dtype dtype, int root, tutti_op reduction = TUTTI_SUM) {
  const Counts all(ranks, counts, "counts");
  const ConstBuffer input = input_of(whole, all.total, dtype);
  return {.op = op,
          .input = op == OpKind::ScatterV ? at_root(ranks, root, input) : input,
          .output = output_of(block, all.own, dtype),
          .root = root,
          .reduction = reduction_of(reduction),
          .counts = all.each};
}

Collective all_to_all_v_call(const ProcessGroup& ranks, const void* input, const size_t* send_counts, void* output,
                             const size_t* recv_counts, tutti_dtype dtype) {
  const Counts sent(ranks, send_counts, "send_counts");
  const Counts received(ranks, recv_counts, "recv_counts");
  return {.op = OpKind::AllToAllV,
          .input = input_of(input, sent.total, dtype),
          .output = output_of(output, received.total, dtype),
          .counts = sent.each,
          .recv_counts = received.each};
}

Collective rounded_call(double* sums, float* rounded, size_t count) {
  return {.op = OpKind::AllReduce,
          .output = output_of(sums, count, TUTTI_FLOAT64),
          .rounded = output_of(rounded, count, TUTTI_FLOAT32)};
}

}  // namespace

/// Defines both forms of a collective, for the caller's thread and started: its name, the call, and its parameters.
#define TUTTI_BOTH_FORMS(name, call, ...)                                                                           \
  tutti_result tutti_##name(tutti_group* group __VA_OPT__(, ) __VA_ARGS__) {                                        \
    return on_group("tutti_" #name, group, [&](ProcessGroup& ranks) { ranks.run(call); });                          \
  }                                                                                                                 \
  tutti_result tutti_##name##_async(tutti_group* group __VA_OPT__(, ) __VA_ARGS__, tutti_work** work) {             \
    return start("tutti_" #name "_async", group, work, [&](ProcessGroup& ranks) { return ranks.run_async(call); }); \
  }

TUTTI_BOTH_FORMS(broadcast,
                 (Collective{.op = OpKind::Broadcast, .output = output_of(data, count, dtype), .root = root}),
                 void* data, size_t count, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(reduce, call_of(OpKind::Reduce, ranks, input, 1, output, 1, count, dtype, op, root), const void* input,
                 void* output, size_t count, tutti_dtype dtype, tutti_op op, int root)
TUTTI_BOTH_FORMS(all_reduce,
                 (Collective{
                     .op = OpKind::AllReduce, .output = output_of(data, count, dtype), .reduction = reduction_of(op)}),
                 void* data, size_t count, tutti_dtype dtype, tutti_op op)
TUTTI_BOTH_FORMS(all_reduce_rounded, rounded_call(sums, rounded, count), double* sums, float* rounded, size_t count)
TUTTI_BOTH_FORMS(gather,
                 call_of(OpKind::Gather, ranks, input, 1, output, ranks.world_size(), count, dtype, TUTTI_SUM, root),
                 const void* input, void* output, size_t count, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(all_gather, call_of(OpKind::AllGather, ranks, input, 1, output, ranks.world_size(), count, dtype),
                 const void* input, void* output, size_t count, tutti_dtype dtype)
TUTTI_BOTH_FORMS(scatter,
                 call_of(OpKind::Scatter, ranks, input, ranks.world_size(), output, 1, count, dtype, TUTTI_SUM, root),
                 const void* input, void* output, size_t count, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(reduce_scatter,
                 call_of(OpKind::ReduceScatter, ranks, input, ranks.world_size(), output, 1, count, dtype, op),
                 const void* input, void* output, size_t count, tutti_dtype dtype, tutti_op op)
TUTTI_BOTH_FORMS(all_to_all,
                 call_of(OpKind::AllToAll, ranks, input, ranks.world_size(), output, ranks.world_size(), count, dtype),
                 const void* input, void* output, size_t count, tutti_dtype dtype)
TUTTI_BOTH_FORMS(gather_v, gather_v_call(OpKind::GatherV, ranks, block, whole, counts, dtype, root), const void* block,
                 void* whole, const size_t* counts, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(scatter_v, scatter_v_call(OpKind::ScatterV, ranks, whole, block, counts, dtype, root),
                 const void* whole, void* block, const size_t* counts, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(all_gather_v, gather_v_call(OpKind::AllGatherV, ranks, block, whole, counts, dtype), const void* block,
                 void* whole, const size_t* counts, tutti_dtype dtype)
TUTTI_BOTH_FORMS(reduce_scatter_v, scatter_v_call(OpKind::ReduceScatterV, ranks, whole, block, counts, dtype, 0, op),
                 const void* whole, void* block, const size_t* counts, tutti_dtype dtype, tutti_op op)
TUTTI_BOTH_FORMS(all_to_all_v, all_to_all_v_call(ranks, input, send_counts, output, recv_counts, dtype),
                 const void* input, const size_t* send_counts, void* output, const size_t* recv_counts,
                 tutti_dtype dtype)
TUTTI_BOTH_FORMS(barrier, Collective{.op = OpKind::Barrier})
