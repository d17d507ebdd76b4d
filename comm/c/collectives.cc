// Collectives.
#include <tutti/comm/base/counts.h>
#include <tutti/comm/c/boundary.h>
#include <tutti/comm/schedule/schedule.h>

using namespace tutti::comm;
using namespace tutti::comm::c;

namespace {

/// The counts of a v-form, one for each rank, and what follows from them.
struct Counts {
  Counts(const ProcessGroup& group, const std::size_t* counts, const char* what)
      : each((require(counts, what), counts), static_cast<std::size_t>(group.world_size())),
        own(each[static_cast<std::size_t>(group.rank())]) {
    for (const std::size_t count : each) {
      if (count >= kMaxTotalCount - total) refuse(what, " add up to 2^40 elements or more; split the operation");
      total += count;
    }
  }

  std::span<const std::size_t> each;
  std::size_t own;
  std::size_t total = 0;
};

/// `one`: elements of this rank's block; `all`: of the blocks of all ranks.
Collective with_buffers(OpKind op, const ProcessGroup& ranks, const void* input, void* output, std::size_t one,
                        std::size_t all, tutti_dtype dtype, tutti_op reduction, int root) {
  const Form form = form_of(op);
  const auto held = [&](Blocks blocks) { return elements_of(blocks, ranks.rank() == root, one, all); };
  return {.op = op,
          .input = input_of(input, held(form.input), dtype),
          .output = output_of(output, held(form.output), dtype),
          .root = root,
          .reduction = reduction_of(reduction)};
}

Collective call_of(OpKind op, const ProcessGroup& ranks, const void* input, void* output, std::size_t count,
                   tutti_dtype dtype, tutti_op reduction = TUTTI_SUM, int root = 0) {
  const std::size_t all = elements_of_all(count, dtype, ranks.world_size());
  return with_buffers(op, ranks, input, output, count, all, dtype, reduction, root);
}

Collective v_call(OpKind op, const ProcessGroup& ranks, const void* input, void* output, const size_t* counts,
                  tutti_dtype dtype, tutti_op reduction = TUTTI_SUM, int root = 0) {
  const Counts all(ranks, counts, "counts");
  Collective call = with_buffers(op, ranks, input, output, all.own, all.total, dtype, reduction, root);
  call.counts = all.each;
  return call;
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

TUTTI_BOTH_FORMS(broadcast, call_of(OpKind::Broadcast, ranks, nullptr, data, count, dtype, TUTTI_SUM, root), void* data,
                 size_t count, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(reduce, call_of(OpKind::Reduce, ranks, input, output, count, dtype, op, root), const void* input,
                 void* output, size_t count, tutti_dtype dtype, tutti_op op, int root)
TUTTI_BOTH_FORMS(all_reduce, call_of(OpKind::AllReduce, ranks, nullptr, data, count, dtype, op), void* data,
                 size_t count, tutti_dtype dtype, tutti_op op)
TUTTI_BOTH_FORMS(all_reduce_rounded, rounded_call(sums, rounded, count), double* sums, float* rounded, size_t count)
TUTTI_BOTH_FORMS(gather, call_of(OpKind::Gather, ranks, input, output, count, dtype, TUTTI_SUM, root),
                 const void* input, void* output, size_t count, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(all_gather, call_of(OpKind::AllGather, ranks, input, output, count, dtype), const void* input,
                 void* output, size_t count, tutti_dtype dtype)
TUTTI_BOTH_FORMS(scatter, call_of(OpKind::Scatter, ranks, input, output, count, dtype, TUTTI_SUM, root),
                 const void* input, void* output, size_t count, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(reduce_scatter, call_of(OpKind::ReduceScatter, ranks, input, output, count, dtype, op),
                 const void* input, void* output, size_t count, tutti_dtype dtype, tutti_op op)
TUTTI_BOTH_FORMS(all_to_all, call_of(OpKind::AllToAll, ranks, input, output, count, dtype), const void* input,
                 void* output, size_t count, tutti_dtype dtype)
TUTTI_BOTH_FORMS(gather_v, v_call(OpKind::GatherV, ranks, block, whole, counts, dtype, TUTTI_SUM, root),
                 const void* block, void* whole, const size_t* counts, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(scatter_v, v_call(OpKind::ScatterV, ranks, whole, block, counts, dtype, TUTTI_SUM, root),
                 const void* whole, void* block, const size_t* counts, tutti_dtype dtype, int root)
TUTTI_BOTH_FORMS(all_gather_v, v_call(OpKind::AllGatherV, ranks, block, whole, counts, dtype), const void* block,
                 void* whole, const size_t* counts, tutti_dtype dtype)
TUTTI_BOTH_FORMS(reduce_scatter_v, v_call(OpKind::ReduceScatterV, ranks, whole, block, counts, dtype, op),
                 const void* whole, void* block, const size_t* counts, tutti_dtype dtype, tutti_op op)
TUTTI_BOTH_FORMS(all_to_all_v, all_to_all_v_call(ranks, input, send_counts, output, recv_counts, dtype),
                 const void* input, const size_t* send_counts, void* output, const size_t* recv_counts,
                 tutti_dtype dtype)
TUTTI_BOTH_FORMS(barrier, Collective{.op = OpKind::Barrier})
