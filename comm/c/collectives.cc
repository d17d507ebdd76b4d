// Collectives: each once for the caller's thread, and once started.
#include <tutti/comm/base/counts.h>
#include <tutti/comm/c/boundary.h>
#include <tutti/comm/c/tutti_collectives.h>

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

}  // namespace

tutti_result tutti_broadcast(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int root) {
  return on_group("tutti_broadcast", group,
                  [&](ProcessGroup& ranks) { ranks.broadcast(output_of(data, count, dtype), root); });
}
tutti_result tutti_broadcast_async(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int root,
                                   tutti_work** work) {
  return start("tutti_broadcast_async", group, work,
               [&](ProcessGroup& ranks) { return ranks.broadcast_async(output_of(data, count, dtype), root); });
}

tutti_result tutti_reduce(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                          tutti_op op, int root) {
  return on_group("tutti_reduce", group, [&](ProcessGroup& ranks) {
    ranks.reduce(input_of(input, count, dtype), at_root(ranks, root, output_of(output, count, dtype)), reduction_of(op),
                 root);
  });
}
tutti_result tutti_reduce_async(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                tutti_op op, int root, tutti_work** work) {
  return start("tutti_reduce_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.reduce_async(input_of(input, count, dtype), at_root(ranks, root, output_of(output, count, dtype)),
                              reduction_of(op), root);
  });
}

tutti_result tutti_all_reduce(tutti_group* group, void* data, size_t count, tutti_dtype dtype, tutti_op op) {
  return on_group("tutti_all_reduce", group,
                  [&](ProcessGroup& ranks) { ranks.all_reduce(output_of(data, count, dtype), reduction_of(op)); });
}
tutti_result tutti_all_reduce_async(tutti_group* group, void* data, size_t count, tutti_dtype dtype, tutti_op op,
                                    tutti_work** work) {
  return start("tutti_all_reduce_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.all_reduce_async(output_of(data, count, dtype), reduction_of(op));
  });
}

tutti_result tutti_all_reduce_rounded(tutti_group* group, double* sums, float* rounded, size_t count) {
  return on_group("tutti_all_reduce_rounded", group, [&](ProcessGroup& ranks) {
    ranks.all_reduce_rounded(output_of(sums, count, TUTTI_FLOAT64), output_of(rounded, count, TUTTI_FLOAT32));
  });
}
tutti_result tutti_all_reduce_rounded_async(tutti_group* group, double* sums, float* rounded, size_t count,
                                            tutti_work** work) {
  return start("tutti_all_reduce_rounded_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.all_reduce_rounded_async(output_of(sums, count, TUTTI_FLOAT64),
                                          output_of(rounded, count, TUTTI_FLOAT32));
  });
}

tutti_result tutti_gather(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                          int root) {
  return on_group("tutti_gather", group, [&](ProcessGroup& ranks) {
    ranks.gather(input_of(input, count, dtype),
                 at_root(ranks, root, output_of(output, count, dtype, ranks.world_size())), root);
  });
}
tutti_result tutti_gather_async(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                int root, tutti_work** work) {
  return start("tutti_gather_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.gather_async(input_of(input, count, dtype),
                              at_root(ranks, root, output_of(output, count, dtype, ranks.world_size())), root);
  });
}

tutti_result tutti_all_gather(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype) {
  return on_group("tutti_all_gather", group, [&](ProcessGroup& ranks) {
    ranks.all_gather(input_of(input, count, dtype), output_of(output, count, dtype, ranks.world_size()));
  });
}
tutti_result tutti_all_gather_async(tutti_group* group, const void* input, void* output, size_t count,
                                    tutti_dtype dtype, tutti_work** work) {
  return start("tutti_all_gather_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.all_gather_async(input_of(input, count, dtype), output_of(output, count, dtype, ranks.world_size()));
  });
}

tutti_result tutti_scatter(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                           int root) {
  return on_group("tutti_scatter", group, [&](ProcessGroup& ranks) {
    ranks.scatter(at_root(ranks, root, input_of(input, count, dtype, ranks.world_size())),
                  output_of(output, count, dtype), root);
  });
}
tutti_result tutti_scatter_async(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                 int root, tutti_work** work) {
  return start("tutti_scatter_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.scatter_async(at_root(ranks, root, input_of(input, count, dtype, ranks.world_size())),
                               output_of(output, count, dtype), root);
  });
}

tutti_result tutti_reduce_scatter(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                  tutti_op op) {
  return on_group("tutti_reduce_scatter", group, [&](ProcessGroup& ranks) {
    ranks.reduce_scatter(input_of(input, count, dtype, ranks.world_size()), output_of(output, count, dtype),
                         reduction_of(op));
  });
}
tutti_result tutti_reduce_scatter_async(tutti_group* group, const void* input, void* output, size_t count,
                                        tutti_dtype dtype, tutti_op op, tutti_work** work) {
  return start("tutti_reduce_scatter_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.reduce_scatter_async(input_of(input, count, dtype, ranks.world_size()),
                                      output_of(output, count, dtype), reduction_of(op));
  });
}

tutti_result tutti_all_to_all(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype) {
  return on_group("tutti_all_to_all", group, [&](ProcessGroup& ranks) {
    ranks.all_to_all(input_of(input, count, dtype, ranks.world_size()),
                     output_of(output, count, dtype, ranks.world_size()));
  });
}
tutti_result tutti_all_to_all_async(tutti_group* group, const void* input, void* output, size_t count,
                                    tutti_dtype dtype, tutti_work** work) {
  return start("tutti_all_to_all_async", group, work, [&](ProcessGroup& ranks) {
    return ranks.all_to_all_async(input_of(input, count, dtype, ranks.world_size()),
                                  output_of(output, count, dtype, ranks.world_size()));
  });
}

tutti_result tutti_gather_v(tutti_group* group, const void* block, void* whole, const size_t* counts, tutti_dtype dtype,
                            int root) {
  return on_group("tutti_gather_v", group, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    ranks.gather_v(input_of(block, all.own, dtype), at_root(ranks, root, output_of(whole, all.total, dtype)), all.each,
                   root);
  });
}
tutti_result tutti_gather_v_async(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                  tutti_dtype dtype, int root, tutti_work** work) {
  return start("tutti_gather_v_async", group, work, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    return ranks.gather_v_async(input_of(block, all.own, dtype),
                                at_root(ranks, root, output_of(whole, all.total, dtype)), all.each, root);
  });
}

tutti_result tutti_scatter_v(tutti_group* group, const void* whole, void* block, const size_t* counts,
                             tutti_dtype dtype, int root) {
  return on_group("tutti_scatter_v", group, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    ranks.scatter_v(at_root(ranks, root, input_of(whole, all.total, dtype)), output_of(block, all.own, dtype), all.each,
                    root);
  });
}
tutti_result tutti_scatter_v_async(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                   tutti_dtype dtype, int root, tutti_work** work) {
  return start("tutti_scatter_v_async", group, work, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    return ranks.scatter_v_async(at_root(ranks, root, input_of(whole, all.total, dtype)),
                                 output_of(block, all.own, dtype), all.each, root);
  });
}

tutti_result tutti_all_gather_v(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                tutti_dtype dtype) {
  return on_group("tutti_all_gather_v", group, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    ranks.all_gather_v(input_of(block, all.own, dtype), output_of(whole, all.total, dtype), all.each);
  });
}
tutti_result tutti_all_gather_v_async(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                      tutti_dtype dtype, tutti_work** work) {
  return start("tutti_all_gather_v_async", group, work, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    return ranks.all_gather_v_async(input_of(block, all.own, dtype), output_of(whole, all.total, dtype), all.each);
  });
}

tutti_result tutti_reduce_scatter_v(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                    tutti_dtype dtype, tutti_op op) {
  return on_group("tutti_reduce_scatter_v", group, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    ranks.reduce_scatter_v(input_of(whole, all.total, dtype), output_of(block, all.own, dtype), all.each,
                           reduction_of(op));
  });
}
tutti_result tutti_reduce_scatter_v_async(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                          tutti_dtype dtype, tutti_op op, tutti_work** work) {
  return start("tutti_reduce_scatter_v_async", group, work, [&](ProcessGroup& ranks) {
    const Counts all(ranks, counts, "counts");
    return ranks.reduce_scatter_v_async(input_of(whole, all.total, dtype), output_of(block, all.own, dtype), all.each,
                                        reduction_of(op));
  });
}

tutti_result tutti_all_to_all_v(tutti_group* group, const void* input, const size_t* send_counts, void* output,
                                const size_t* recv_counts, tutti_dtype dtype) {
  return on_group("tutti_all_to_all_v", group, [&](ProcessGroup& ranks) {
    const Counts sent(ranks, send_counts, "send_counts");
    const Counts received(ranks, recv_counts, "recv_counts");
    ranks.all_to_all_v(input_of(input, sent.total, dtype), sent.each, output_of(output, received.total, dtype),
                       received.each);
  });
}
tutti_result tutti_all_to_all_v_async(tutti_group* group, const void* input, const size_t* send_counts, void* output,
                                      const size_t* recv_counts, tutti_dtype dtype, tutti_work** work) {
  return start("tutti_all_to_all_v_async", group, work, [&](ProcessGroup& ranks) {
    const Counts sent(ranks, send_counts, "send_counts");
    const Counts received(ranks, recv_counts, "recv_counts");
    return ranks.all_to_all_v_async(input_of(input, sent.total, dtype), sent.each,
                                    output_of(output, received.total, dtype), received.each);
  });
}

tutti_result tutti_barrier(tutti_group* group) {
  return on_group("tutti_barrier", group, [&](ProcessGroup& ranks) { ranks.barrier(); });
}
tutti_result tutti_barrier_async(tutti_group* group, tutti_work** work) {
  return start("tutti_barrier_async", group, work, [&](ProcessGroup& ranks) { return ranks.barrier_async(); });
}
