#include <tutti/comm/base/counts.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/process_group_impl.h>
#include <unistd.h>

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

// --- Collectives

namespace {

enum class Blocks { None, One, All, OneAtRoot, AllAtRoot };

/// The buffers of a collective: what texts call them and how many blocks they hold, of as many elements as all ranks
/// give or, in a v-form, as the rank's count says.
struct Form {
  const char* input = "input";
  Blocks inputs = Blocks::None;
  const char* output = "output";
  Blocks outputs = Blocks::None;
};

constexpr Form form_of(OpKind op) {
  switch (op) {
    case OpKind::Broadcast:
    case OpKind::AllReduce:
      return {.output = "data", .outputs = Blocks::One};
    case OpKind::Reduce:
      return {.inputs = Blocks::One, .outputs = Blocks::OneAtRoot};
    case OpKind::Gather:
      return {.inputs = Blocks::One, .outputs = Blocks::AllAtRoot};
    case OpKind::AllGather:
    case OpKind::Split:
      return {.inputs = Blocks::One, .outputs = Blocks::All};
    case OpKind::Scatter:
      return {.inputs = Blocks::AllAtRoot, .outputs = Blocks::One};
    case OpKind::ReduceScatter:
      return {.inputs = Blocks::All, .outputs = Blocks::One};
    case OpKind::AllToAll:
      return {.inputs = Blocks::All, .outputs = Blocks::All};
    case OpKind::GatherV:
      return {"block", Blocks::One, "whole", Blocks::AllAtRoot};
    case OpKind::ScatterV:
      return {"whole", Blocks::AllAtRoot, "block", Blocks::One};
    case OpKind::AllGatherV:
      return {"block", Blocks::One, "whole", Blocks::All};
    case OpKind::ReduceScatterV:
      return {"whole", Blocks::All, "block", Blocks::One};
    default:
      return {};
  }
}

/// Whether the input is what tells count and type: the output of others may be empty, and then has none that was meant.
constexpr bool told_by_input(const Form& form, bool v) {
  if (form.outputs == Blocks::OneAtRoot || form.outputs == Blocks::AllAtRoot) return true;
  return form.inputs == (v ? Blocks::All : Blocks::One) || form.outputs == form.inputs;
}

void check_public(OpKind op) {
  if (!is_message(op) && op != OpKind::Shutdown && op != OpKind::Split) return;
  throw Error(ErrorCode::InvalidArgument, "run: " + std::string(name(op)) + " is no collective; call its own function");
}

}  // namespace

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
  const auto held = [&](Blocks blocks) -> std::size_t {
    if ((blocks == Blocks::OneAtRoot || blocks == Blocks::AllAtRoot) && rank() != c.root) return 0;
    if (blocks == Blocks::One || blocks == Blocks::OneAtRoot) return block;
    return v ? total : static_cast<std::size_t>(world_size()) * block;
  };
  const auto require_output = [&] {
    if (form.outputs != Blocks::None) require(c.op, form.output, c.output, held(form.outputs), dtype);
  };
  if (!by_input) require_output();
  if (form.inputs != Blocks::None) require(c.op, form.input, c.input, held(form.inputs), dtype);
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
  invalid(OpKind::AllToAll, "input holds " + std::to_string(input.count) + " elements, which cannot be cut into " +
                                std::to_string(blocks) + " equal blocks, one for each rank");
}

ProcessGroup::Impl::Size ProcessGroup::Impl::check_all_to_all_v(const Collective& c) const {
  const DType dtype = c.input.count > 0 ? c.input.dtype : c.output.dtype;
  require(c.op, "input", c.input, require_counts(c.op, c.counts), dtype);
  require(c.op, "output", c.output, require_counts(c.op, c.recv_counts), dtype);
  const auto self = static_cast<std::size_t>(rank());
  if (c.counts[self] != c.recv_counts[self])
    invalid(c.op, "this rank would send " + std::to_string(c.counts[self]) + " elements to itself, but receive " +
                      std::to_string(c.recv_counts[self]));
  return {0, dtype};
}

// --- Why a call is refused: the long part of the checks

void ProcessGroup::Impl::refuse(OpKind op, const char* what, const ConstBuffer& buffer, std::size_t count,
                                DType dtype) const {
  if (buffer.count != count)
    invalid(op, std::string(what) + " holds " + std::to_string(buffer.count) + " elements, but " +
                    std::to_string(count) + " are needed");
  if (count >= kMaxCount)
    invalid(op,
            std::string(what) + " would hold " + std::to_string(count) + " elements, more than there is memory for");
  if (buffer.dtype != dtype)
    invalid(op, std::string(what) + " is " + std::string(comm::name(buffer.dtype)) + ", but the other buffer is " +
                    std::string(comm::name(dtype)));
  invalid(op, std::string(what) + " is a null pointer");
}

void ProcessGroup::Impl::refuse_overlap(OpKind op, const ConstBuffer& input, const ConstBuffer& output) const {
  const auto& [block, whole] = input.count < output.count ? std::tie(input, output) : std::tie(output, input);
  const bool by_rank = op == OpKind::AllGather || op == OpKind::ReduceScatter;
  const std::size_t offset = by_rank ? static_cast<std::size_t>(rank()) * block.nbytes() : 0;
  if ((by_rank || op == OpKind::Reduce) && block.data == static_cast<const std::byte*>(whole.data) + offset) return;
  invalid(op, "input and output share memory" + std::string(by_rank ? ", and not as this rank's block" : "") +
                  ": give each its own");
}

std::size_t ProcessGroup::Impl::require_counts(OpKind op, Counts counts) const {
  if (counts.size() != static_cast<std::size_t>(world_size()))
    invalid(op, "there are " + std::to_string(counts.size()) + " counts, but " + std::to_string(world_size()) +
                    " are needed, one for each rank");
  std::uint64_t total = 0;
  for (const std::size_t count : counts) {
    if (count >= kMaxTotalCount - total) invalid(op, "the counts add up to 2^40 elements or more; split the operation");
    total += count;
  }
  return total;
}

void ProcessGroup::Impl::refuse_peer(OpKind op, int peer) const {
  invalid(op, "there is no rank " + std::to_string(peer) + " in a world of " + std::to_string(world_size()));
}

void ProcessGroup::Impl::invalid(OpKind op, const std::string& why) const {
  throw Error(ErrorCode::InvalidArgument, monitor_.prefix() + std::string(comm::name(op)) + ": " + why);
}

void ProcessGroup::Impl::refuse_root(OpKind op, int root) const {
  invalid(op, "root " + std::to_string(root) + " is no rank of a world of " + std::to_string(world_size()));
}

void ProcessGroup::Impl::refuse_use() {
  if (forked())
    throw Error(ErrorCode::InvalidArgument,
                "process " + std::to_string(::getpid()) + " was forked from process " + std::to_string(pid_) +
                    ", to which this group belongs: form a new group after the fork, or use threads");
  if (failed_.load(std::memory_order_acquire)) {
    queue_.let_running_end();  // the caller may free its memory when it learns of the failure
    rethrow_failure();
  }
  throw Error(ErrorCode::Aborted, monitor_.prefix() + "the group has been shut down");
}

bool ProcessGroup::Impl::allow_nested(std::uintptr_t other_thread) const {
  if (other_thread == ::pthread_self() || forked()) return true;
  throw Error(ErrorCode::InvalidArgument,
              monitor_.prefix() +
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
