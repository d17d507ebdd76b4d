#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/process_group_impl.h>
#include <unistd.h>

namespace tutti::comm {
namespace {

/// What texts call a buffer.
const char* name_of(OpKind op, Blocks blocks, const char* otherwise) {
  if (!has_counts(op)) return otherwise;
  return blocks == Blocks::One ? "block" : "whole";
}

/// Whether the input is what tells count and type: the output of others may be empty, and then has none that was meant.
constexpr bool told_by_input(const Form& form, bool v) {
  if (only_at_root(form.output)) return true;
  return form.input == (v ? Blocks::All : Blocks::One) || form.output == form.input;
}

void check_public(OpKind op) {
  if (!is_message(op) && op != OpKind::Shutdown && op != OpKind::Split) return;
  throw Error(ErrorCode::InvalidArgument, "run: ", name(op), " is no collective; call its own function");
}

}  // namespace

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
std::string ProcessGroup::transport_name() const { return std::string(impl_->transport_->name()); }
RegisteredBuffer ProcessGroup::allocate(std::size_t nbytes) { return {impl_->heap_.allocate(nbytes), nbytes}; }
std::chrono::milliseconds ProcessGroup::timeout() const { return impl_->options_.timeout; }
const std::string& ProcessGroup::name() const { return impl_->options_.name; }
std::span<const int> ProcessGroup::world_ranks() const { return impl_->world_ranks_; }
const std::shared_ptr<Store>& ProcessGroup::store() const { return impl_->user_store_; }

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

// --- Collectives

ProcessGroup::Impl::Size ProcessGroup::Impl::check(const Collective& c) const {
  if (c.op == OpKind::AllToAllV) return check_all_to_all_v(c);
  if (c.rounded) check_rounded(c);
  const Form form = form_of(c.op);
  const bool v = has_counts(c.op);
  const bool by_input = told_by_input(form, v);
  const auto [known_count, dtype] =
      by_input ? std::pair(c.input.count, c.input.dtype) : std::pair(c.output.count, c.output.dtype);
  const std::size_t total = v ? require_counts(c.op, c.counts) : 0;
  const std::size_t block = v                          ? c.counts[static_cast<std::size_t>(rank())]
                            : c.op == OpKind::AllToAll ? block_of_all(c.input)
                                                       : known_count;
  const std::size_t all = v ? total : static_cast<std::size_t>(world_size()) * block;
  const auto held = [&](Blocks blocks) { return elements_of(blocks, rank() == c.root, block, all); };
  const auto require_output = [&] {
    const char* const name = name_of(c.op, form.output, form.input == Blocks::None ? "data" : "output");
    if (form.output != Blocks::None) require(c.op, name, c.output, held(form.output), dtype);
  };
  if (!by_input) require_output();
  if (form.input != Blocks::None) require(c.op, name_of(c.op, form.input, "input"), c.input, held(form.input), dtype);
  if (by_input) require_output();
  return {v ? summary_of(c.counts) : block, dtype};
}

void ProcessGroup::Impl::check_rounded(const Collective& c) const {
  if (c.op != OpKind::AllReduce || c.reduction.op() != ReduceOp::Sum)
    invalid(c.op, "only the sum of an all_reduce can be rounded to another type");
  require(c.op, "sums", c.output, c.output.count, DType::Float64);
  require(c.op, "rounded", *c.rounded, c.output.count, DType::Float32);
  require_apart(c.op, c.output, *c.rounded);
}

std::size_t ProcessGroup::Impl::block_of_all(const ConstBuffer& input) const {
  const auto blocks = static_cast<std::size_t>(world_size());
  if (input.count % blocks == 0) return input.count / blocks;
  invalid(OpKind::AllToAll, "input holds ", input.count, " elements, which cannot be cut into ", blocks,
          " equal blocks, one for each rank");
}

ProcessGroup::Impl::Size ProcessGroup::Impl::check_all_to_all_v(const Collective& c) const {
  const DType dtype = c.input.count > 0 ? c.input.dtype : c.output.dtype;
  require(c.op, "input", c.input, require_counts(c.op, c.counts), dtype);
  require(c.op, "output", c.output, require_counts(c.op, c.recv_counts), dtype);
  const auto self = static_cast<std::size_t>(rank());
  if (c.counts[self] != c.recv_counts[self])
    invalid(c.op, "this rank would send ", c.counts[self], " elements to itself, but receive ", c.recv_counts[self]);
  return {0, dtype};
}

// --- Why a call is refused: the long part of the checks

void ProcessGroup::Impl::refuse(OpKind op, const char* what, const ConstBuffer& buffer, std::size_t count,
                                DType dtype) const {
  if (buffer.count != count) invalid(op, what, " holds ", buffer.count, " elements, but ", count, " are needed");
  if (count >= kMaxCount) invalid(op, what, " would hold ", count, " elements, more than there is memory for");
  if (buffer.dtype != dtype)
    invalid(op, what, " is ", comm::name(buffer.dtype), ", but the other buffer is ", comm::name(dtype));
  invalid(op, what, " is a null pointer");
}

void ProcessGroup::Impl::refuse_overlap(OpKind op, const ConstBuffer& input, const ConstBuffer& output) const {
  const auto& [block, whole] = input.count < output.count ? std::tie(input, output) : std::tie(output, input);
  const bool by_rank = op == OpKind::AllGather || op == OpKind::ReduceScatter;
  const std::size_t offset = by_rank ? static_cast<std::size_t>(rank()) * block.nbytes() : 0;
  if ((by_rank || op == OpKind::Reduce) && block.data == static_cast<const std::byte*>(whole.data) + offset) return;
  invalid(op, "input and output share memory", by_rank ? ", and not as this rank's block" : "", ": give each its own");
}

std::size_t ProcessGroup::Impl::require_counts(OpKind op, Counts counts) const {
  if (counts.size() != static_cast<std::size_t>(world_size()))
    invalid(op, "there are ", counts.size(), " counts, but ", world_size(), " are needed, one for each rank");
  std::uint64_t total = 0;
  for (const std::size_t count : counts) {
    if (count >= kMaxTotalCount - total) invalid(op, "the counts add up to 2^40 elements or more; split the operation");
    total += count;
  }
  return total;
}

void ProcessGroup::Impl::refuse_use() {
  if (forked())
    throw Error(ErrorCode::InvalidArgument, "process ", ::getpid(), " was forked from process ", pid_,
                ", to which this group belongs: form a new group after the fork, or use threads");
  if (failed_.load(std::memory_order_acquire)) {
    queue_.let_running_end();  // the caller may free its memory when it learns of the failure
    rethrow_failure();
  }
  throw Error(ErrorCode::Aborted, monitor_.prefix(), "the group has been shut down");
}

bool ProcessGroup::Impl::allow_nested(std::uintptr_t other_thread) const {
  if (other_thread == ::pthread_self() || forked()) return true;
  throw Error(ErrorCode::InvalidArgument, monitor_.prefix(),
              "another thread is in an operation of this group: one thread at a time may issue them. Use one "
              "group for each thread (split()), or a lock around the calls");
}

// --- Calls

void ProcessGroup::run(const Collective& call) {
  auto entry = impl_->enter();
  check_public(call.op);
  entry->run(entry->prepare(call));
}

Work ProcessGroup::run_async(const Collective& call) {
  auto entry = impl_->enter();
  check_public(call.op);
  return entry->run_async(entry->prepare(call));
}

// --- Point-to-point

void ProcessGroup::send(ConstBuffer data, int destination, int tag) {
  impl_->message(OpKind::Send, data, destination, tag,
                 [&](PointToPoint& messages, Caller& caller) { messages.send(data, destination, tag, caller); });
}

Work ProcessGroup::isend(ConstBuffer data, int destination, int tag) {
  return impl_->message(OpKind::Send, data, destination, tag,
                        [&](PointToPoint& messages, Caller&) { return messages.isend(data, destination, tag); });
}

int ProcessGroup::recv(Buffer data, int source, int tag) {
  return impl_->message(OpKind::Recv, data, source, tag, [&](PointToPoint& messages, Caller& caller) {
    return messages.recv(data, source, tag, caller);
  });
}

Work ProcessGroup::irecv(Buffer data, int source, int tag) {
  return impl_->message(OpKind::Recv, data, source, tag,
                        [&](PointToPoint& messages, Caller&) { return messages.irecv(data, source, tag); });
}

int ProcessGroup::sendrecv(ConstBuffer outgoing, int destination, Buffer incoming, int source, int send_tag,
                           int recv_tag) {
  impl_->check_peer(OpKind::Send, destination, /*any_allowed=*/false);
  impl_->check_peer(OpKind::Recv, source, /*any_allowed=*/true);
  impl_->require(OpKind::Send, "outgoing", outgoing, outgoing.count, outgoing.dtype);
  impl_->require(OpKind::Recv, "incoming", incoming, incoming.count, incoming.dtype);
  impl_->require_apart(OpKind::Send, outgoing, incoming);
  return impl_->enter()->guarded(impl_->fingerprint_of(OpKind::Recv, incoming, recv_tag), [&](Caller& caller) {
    return impl_->point_to_point_.sendrecv(outgoing, destination, send_tag, incoming, source, recv_tag, caller);
  });
}

std::string ProcessGroup::recent_operations() const { return impl_->recent_operations(); }
void ProcessGroup::shutdown() { impl_->enter()->shutdown(); }
void ProcessGroup::abort(const std::string& reason) { impl_->abort(reason); }

}  // namespace tutti::comm
