#include <tutti/comm/base/counts.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/process_group_impl.h>

namespace tutti::comm {

std::unique_ptr<ProcessGroup> ProcessGroup::connect(const World& world, ProcessGroupOptions options) {
  options = complete(std::move(options));
  Meeting meeting = rendezvous(world, options.name,
                               {.bind_address = options.bind_address,
                                .interface = options.interface,
                                .transport = transport_choice(options.transport),
                                .encrypt = options.encrypt,
                                .settings = settings_to_agree(options),
                                .timeout = options.timeout});
  return std::make_unique<ProcessGroup>(std::move(meeting.store), std::move(meeting.transport), std::move(options),
                                        std::move(meeting.factory));
}

ProcessGroup::ProcessGroup(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport,
                           ProcessGroupOptions options, std::shared_ptr<TransportFactory> factory)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(transport), complete(std::move(options)),
                                   std::move(factory), nullptr)) {}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ProcessGroup::~ProcessGroup() {
  // In a forked child the threads do not exist and the sockets are the parent's: leave everything as it is.
  if (impl_->forked()) {
    [[maybe_unused]] const auto* left = impl_.release();
    return;
  }
  impl_->leave();
}

int ProcessGroup::rank() const { return impl_->rank(); }
int ProcessGroup::world_size() const { return impl_->world_size(); }
std::string ProcessGroup::transport_name() const { return impl_->transport_name(); }
RegisteredBuffer ProcessGroup::allocate(std::size_t nbytes) { return impl_->allocate(nbytes); }
std::chrono::milliseconds ProcessGroup::timeout() const { return impl_->timeout(); }
const std::string& ProcessGroup::name() const { return impl_->group_name(); }
std::span<const int> ProcessGroup::world_ranks() const { return impl_->world_ranks(); }
const std::shared_ptr<Store>& ProcessGroup::store() const { return impl_->store(); }

std::string ProcessGroup::algorithm_for(OpKind op, std::size_t count, DType dtype, int root) {
  return impl_->enter()->algorithm_for(op, count, dtype, root);
}

TuningPlace ProcessGroup::place() const { return impl_->place(); }

void ProcessGroup::use_algorithm(const std::string& name) { impl_->enter()->use_algorithm(name); }

std::unique_ptr<ProcessGroup> ProcessGroup::split(int color, int key) {
  auto impl = impl_->enter()->split(color, key);
  return impl ? std::unique_ptr<ProcessGroup>(new ProcessGroup(std::move(impl))) : nullptr;
}

std::unique_ptr<ProcessGroup> ProcessGroup::subgroup(std::span<const int> ranks) {
  return std::unique_ptr<ProcessGroup>(new ProcessGroup(impl_->enter()->subgroup(ranks)));
}

// --- Collectives: each call is described once, for the synchronous and the asynchronous form.

ProcessGroup::Impl::Call ProcessGroup::Impl::broadcast(const Buffer& data, int root) {
  require(OpKind::Broadcast, "data", data, data.count, data.dtype);
  return prepare(OpKind::Broadcast, {}, data, data.count, ReduceOp::Sum, root);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::reduce(const ConstBuffer& input, const Buffer& output, const Reduction& op,
                                                    int root) {
  require(OpKind::Reduce, "input", input, input.count, input.dtype);
  require(OpKind::Reduce, "output", output, rank() == root ? input.count : 0, input.dtype);
  return prepare(OpKind::Reduce, input, output, input.count, op, root);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::all_reduce(const Buffer& data, const Reduction& op) {
  require(OpKind::AllReduce, "data", data, data.count, data.dtype);
  return prepare(OpKind::AllReduce, {}, data, data.count, op, 0);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::all_reduce_rounded(const Buffer& sums, const Buffer& rounded) {
  require(OpKind::AllReduce, "sums", sums, sums.count, DType::Float64);
  require(OpKind::AllReduce, "rounded", rounded, sums.count, DType::Float32);
  require_apart(OpKind::AllReduce, sums, rounded);
  Call call = prepare(OpKind::AllReduce, {}, sums, sums.count, ReduceOp::Sum, 0);
  call.fingerprint.root = kRounded;
  call.rounded = rounded.data;
  return call;
}

ProcessGroup::Impl::Call ProcessGroup::Impl::gather(const ConstBuffer& input, const Buffer& output, int root) {
  require(OpKind::Gather, "input", input, input.count, input.dtype);
  const auto blocks = rank() == root ? static_cast<std::size_t>(world_size()) : 0;
  require(OpKind::Gather, "output", output, blocks * input.count, input.dtype);
  return prepare(OpKind::Gather, input, output, input.count, ReduceOp::Sum, root);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::all_gather(const ConstBuffer& input, const Buffer& output) {
  require(OpKind::AllGather, "input", input, input.count, input.dtype);
  require(OpKind::AllGather, "output", output, static_cast<std::size_t>(world_size()) * input.count, input.dtype);
  return prepare_in_place(prepare(OpKind::AllGather, input, output, input.count, ReduceOp::Sum, 0), input, output);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::scatter(const ConstBuffer& input, const Buffer& output, int root) {
  require(OpKind::Scatter, "output", output, output.count, output.dtype);
  const auto blocks = rank() == root ? static_cast<std::size_t>(world_size()) : 0;
  require(OpKind::Scatter, "input", input, blocks * output.count, output.dtype);
  return prepare(OpKind::Scatter, input, output, output.count, ReduceOp::Sum, root);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::reduce_scatter(const ConstBuffer& input, const Buffer& output,
                                                            const Reduction& op) {
  require(OpKind::ReduceScatter, "output", output, output.count, output.dtype);
  require(OpKind::ReduceScatter, "input", input, static_cast<std::size_t>(world_size()) * output.count, output.dtype);
  return prepare_in_place(prepare(OpKind::ReduceScatter, input, output, output.count, op, 0), input, output);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::all_to_all(const ConstBuffer& input, const Buffer& output) {
  const auto blocks = static_cast<std::size_t>(world_size());
  if (input.count % blocks != 0)
    invalid(OpKind::AllToAll, "input holds " + std::to_string(input.count) + " elements, which cannot be cut into " +
                                  std::to_string(blocks) + " equal blocks, one for each rank");
  require(OpKind::AllToAll, "input", input, input.count, input.dtype);
  require(OpKind::AllToAll, "output", output, input.count, input.dtype);
  return prepare(OpKind::AllToAll, input, output, input.count / blocks, ReduceOp::Sum, 0);
}

// The buffer of which there may be nothing gets the other one's type: an empty buffer has none that the caller meant.
ProcessGroup::Impl::Call ProcessGroup::Impl::gather_v(ConstBuffer block, Buffer whole, Counts counts, int root) {
  const std::size_t total = require_counts(OpKind::GatherV, counts);
  require(OpKind::GatherV, "block", block, counts[static_cast<std::size_t>(rank())], block.dtype);
  require(OpKind::GatherV, "whole", whole, rank() == root ? total : 0, block.dtype);
  whole.dtype = block.dtype;
  return prepare(OpKind::GatherV, block, whole, summary_of(counts), ReduceOp::Sum, root, counts);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::scatter_v(ConstBuffer whole, Buffer block, Counts counts, int root) {
  const std::size_t total = require_counts(OpKind::ScatterV, counts);
  require(OpKind::ScatterV, "block", block, counts[static_cast<std::size_t>(rank())], block.dtype);
  require(OpKind::ScatterV, "whole", whole, rank() == root ? total : 0, block.dtype);
  whole.dtype = block.dtype;
  return prepare(OpKind::ScatterV, whole, block, summary_of(counts), ReduceOp::Sum, root, counts);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::all_gather_v(ConstBuffer block, Buffer whole, Counts counts) {
  const std::size_t total = require_counts(OpKind::AllGatherV, counts);
  require(OpKind::AllGatherV, "whole", whole, total, whole.dtype);
  require(OpKind::AllGatherV, "block", block, counts[static_cast<std::size_t>(rank())], whole.dtype);
  block.dtype = whole.dtype;
  return prepare(OpKind::AllGatherV, block, whole, summary_of(counts), ReduceOp::Sum, 0, counts);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::reduce_scatter_v(ConstBuffer whole, Buffer block, Counts counts,
                                                              const Reduction& op) {
  const std::size_t total = require_counts(OpKind::ReduceScatterV, counts);
  require(OpKind::ReduceScatterV, "whole", whole, total, whole.dtype);
  require(OpKind::ReduceScatterV, "block", block, counts[static_cast<std::size_t>(rank())], whole.dtype);
  block.dtype = whole.dtype;
  return prepare(OpKind::ReduceScatterV, whole, block, summary_of(counts), op, 0, counts);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::all_to_all_v(ConstBuffer input, Counts send_counts, Buffer output,
                                                          Counts recv_counts) {
  const OpKind op = OpKind::AllToAllV;
  require(op, "input", input, require_counts(op, send_counts), input.count > 0 ? input.dtype : output.dtype);
  require(op, "output", output, require_counts(op, recv_counts), input.count > 0 ? input.dtype : output.dtype);
  const auto self = static_cast<std::size_t>(rank());
  if (send_counts[self] != recv_counts[self])
    invalid(op, "this rank would send " + std::to_string(send_counts[self]) + " elements to itself, but receive " +
                    std::to_string(recv_counts[self]));
  return prepare(op, input, output, 0, ReduceOp::Sum, 0, send_counts, recv_counts);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::barrier() { return prepare(OpKind::Barrier, {}, {}, 0, ReduceOp::Sum, 0); }

void ProcessGroup::broadcast(Buffer data, int root) { impl_->enter()->run(impl_->broadcast(data, root)); }
Work ProcessGroup::broadcast_async(Buffer data, int root) {
  return impl_->enter()->run_async(impl_->broadcast(data, root));
}

void ProcessGroup::reduce(ConstBuffer input, Buffer output, const Reduction& op, int root) {
  impl_->enter()->run(impl_->reduce(input, output, op, root));
}
Work ProcessGroup::reduce_async(ConstBuffer input, Buffer output, const Reduction& op, int root) {
  return impl_->enter()->run_async(impl_->reduce(input, output, op, root));
}

void ProcessGroup::all_reduce(Buffer data, const Reduction& op) { impl_->enter()->run(impl_->all_reduce(data, op)); }
Work ProcessGroup::all_reduce_async(Buffer data, const Reduction& op) {
  return impl_->enter()->run_async(impl_->all_reduce(data, op));
}
void ProcessGroup::all_reduce_rounded(Buffer sums, Buffer rounded) {
  impl_->enter()->run(impl_->all_reduce_rounded(sums, rounded));
}
Work ProcessGroup::all_reduce_rounded_async(Buffer sums, Buffer rounded) {
  return impl_->enter()->run_async(impl_->all_reduce_rounded(sums, rounded));
}

void ProcessGroup::gather(ConstBuffer input, Buffer output, int root) {
  impl_->enter()->run(impl_->gather(input, output, root));
}
Work ProcessGroup::gather_async(ConstBuffer input, Buffer output, int root) {
  return impl_->enter()->run_async(impl_->gather(input, output, root));
}

void ProcessGroup::all_gather(ConstBuffer input, Buffer output) {
  impl_->enter()->run(impl_->all_gather(input, output));
}
Work ProcessGroup::all_gather_async(ConstBuffer input, Buffer output) {
  return impl_->enter()->run_async(impl_->all_gather(input, output));
}

void ProcessGroup::scatter(ConstBuffer input, Buffer output, int root) {
  impl_->enter()->run(impl_->scatter(input, output, root));
}
Work ProcessGroup::scatter_async(ConstBuffer input, Buffer output, int root) {
  return impl_->enter()->run_async(impl_->scatter(input, output, root));
}

void ProcessGroup::reduce_scatter(ConstBuffer input, Buffer output, const Reduction& op) {
  impl_->enter()->run(impl_->reduce_scatter(input, output, op));
}
Work ProcessGroup::reduce_scatter_async(ConstBuffer input, Buffer output, const Reduction& op) {
  return impl_->enter()->run_async(impl_->reduce_scatter(input, output, op));
}

void ProcessGroup::all_to_all(ConstBuffer input, Buffer output) {
  impl_->enter()->run(impl_->all_to_all(input, output));
}
Work ProcessGroup::all_to_all_async(ConstBuffer input, Buffer output) {
  return impl_->enter()->run_async(impl_->all_to_all(input, output));
}

void ProcessGroup::gather_v(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts, int root) {
  impl_->enter()->run(impl_->gather_v(block, whole, counts, root));
}
Work ProcessGroup::gather_v_async(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts, int root) {
  return impl_->enter()->run_async(impl_->gather_v(block, whole, counts, root));
}

void ProcessGroup::scatter_v(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts, int root) {
  impl_->enter()->run(impl_->scatter_v(whole, block, counts, root));
}
Work ProcessGroup::scatter_v_async(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts, int root) {
  return impl_->enter()->run_async(impl_->scatter_v(whole, block, counts, root));
}

void ProcessGroup::all_gather_v(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts) {
  impl_->enter()->run(impl_->all_gather_v(block, whole, counts));
}
Work ProcessGroup::all_gather_v_async(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts) {
  return impl_->enter()->run_async(impl_->all_gather_v(block, whole, counts));
}

void ProcessGroup::reduce_scatter_v(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts,
                                    const Reduction& op) {
  impl_->enter()->run(impl_->reduce_scatter_v(whole, block, counts, op));
}
Work ProcessGroup::reduce_scatter_v_async(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts,
                                          const Reduction& op) {
  return impl_->enter()->run_async(impl_->reduce_scatter_v(whole, block, counts, op));
}

void ProcessGroup::all_to_all_v(ConstBuffer input, std::span<const std::size_t> send_counts, Buffer output,
                                std::span<const std::size_t> recv_counts) {
  impl_->enter()->run(impl_->all_to_all_v(input, send_counts, output, recv_counts));
}
Work ProcessGroup::all_to_all_v_async(ConstBuffer input, std::span<const std::size_t> send_counts, Buffer output,
                                      std::span<const std::size_t> recv_counts) {
  return impl_->enter()->run_async(impl_->all_to_all_v(input, send_counts, output, recv_counts));
}

void ProcessGroup::barrier() { impl_->enter()->run(impl_->barrier()); }
Work ProcessGroup::barrier_async() { return impl_->enter()->run_async(impl_->barrier()); }

// --- Point-to-point

void ProcessGroup::send(ConstBuffer data, int destination, int tag) {
  impl_->check_peer(OpKind::Send, destination, /*any_allowed=*/false);
  impl_->require(OpKind::Send, "data", data, data.count, data.dtype);
  impl_->enter()->guarded(impl_->message(OpKind::Send, data, tag),
                          [&](Caller& caller) { impl_->point_to_point().send(data, destination, tag, caller); });
}

Work ProcessGroup::isend(ConstBuffer data, int destination, int tag) {
  impl_->check_peer(OpKind::Send, destination, /*any_allowed=*/false);
  impl_->require(OpKind::Send, "data", data, data.count, data.dtype);
  return impl_->enter()->guarded(impl_->message(OpKind::Send, data, tag),
                                 [&](Caller&) { return impl_->point_to_point().isend(data, destination, tag); });
}

int ProcessGroup::recv(Buffer data, int source, int tag) {
  impl_->check_peer(OpKind::Recv, source, /*any_allowed=*/true);
  impl_->require(OpKind::Recv, "data", data, data.count, data.dtype);
  return impl_->enter()->guarded(impl_->message(OpKind::Recv, data, tag), [&](Caller& caller) {
    return impl_->point_to_point().recv(data, source, tag, caller);
  });
}

Work ProcessGroup::irecv(Buffer data, int source, int tag) {
  impl_->check_peer(OpKind::Recv, source, /*any_allowed=*/true);
  impl_->require(OpKind::Recv, "data", data, data.count, data.dtype);
  return impl_->enter()->guarded(impl_->message(OpKind::Recv, data, tag),
                                 [&](Caller&) { return impl_->point_to_point().irecv(data, source, tag); });
}

int ProcessGroup::sendrecv(ConstBuffer outgoing, int destination, Buffer incoming, int source, int send_tag,
                           int recv_tag) {
  impl_->check_peer(OpKind::Send, destination, /*any_allowed=*/false);
  impl_->check_peer(OpKind::Recv, source, /*any_allowed=*/true);
  impl_->require(OpKind::Send, "outgoing", outgoing, outgoing.count, outgoing.dtype);
  impl_->require(OpKind::Recv, "incoming", incoming, incoming.count, incoming.dtype);
  impl_->require_apart(OpKind::Send, outgoing, incoming);
  return impl_->enter()->guarded(impl_->message(OpKind::Recv, incoming, recv_tag), [&](Caller& caller) {
    return impl_->point_to_point().sendrecv(outgoing, destination, send_tag, incoming, source, recv_tag, caller);
  });
}

std::string ProcessGroup::recent_operations() const { return impl_->recent_operations(); }
void ProcessGroup::shutdown() { impl_->enter()->shutdown(); }
void ProcessGroup::abort(const std::string& reason) { impl_->abort(reason); }

}  // namespace tutti::comm
