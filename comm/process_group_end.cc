// How a group refuses calls, fails and ends.
#include <tutti/comm/base/counts.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/process_group_impl.h>
#include <unistd.h>

#include <algorithm>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kGoodbyeLimit(5000);

}  // namespace

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

void ProcessGroup::Impl::shutdown() {
  if (writes_trace_ && !closed_) collect_trace();
  const Call goodbye = prepare({.op = OpKind::Shutdown});
  point_to_point_.drain(goodbye.fingerprint);
  run(goodbye);
  closed_ = true;
  log_recent_operations();
  transport_->close();
}

void ProcessGroup::Impl::abort(const std::string& reason) {
  if (!closed_) fail_from_outside(Error(ErrorCode::PeerLost, reason), "abort");
}

void ProcessGroup::Impl::leave() noexcept {
  if (failed_.load(std::memory_order_acquire) && writes_trace_) leave_own_trace();
  if (closed_ || failed_.load(std::memory_order_acquire) || (world_size() == 1 && !writes_trace_)) return;
  try {
    if (std::uncaught_exceptions() > 0) return abort("its program failed and left the group");
    options_.timeout = std::min(options_.timeout, kGoodbyeLimit);
    shutdown();
  } catch (const std::exception& error) {
    log(LogLevel::Warn, error.what());
  }
}

void ProcessGroup::Impl::record_failure(const Error& error, const std::string& operation) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) return;
  const std::string local = monitor_.prefix() + operation + ": " + error.what() + operations_before(operation);
  log_recent_operations();
  const bool second_hand = error.code() == ErrorCode::Aborted;
  const std::string cause = second_hand ? error.what() : monitor_.report(local);
  failure_ = cause == local
                 ? std::make_exception_ptr(Error(error.code(), local))
                 : std::make_exception_ptr(Error(
                       ErrorCode::Aborted, monitor_.prefix() + operation + " was aborted; first cause: " + cause));
  failed_.store(true, std::memory_order_release);
  transport_->close();
}

void ProcessGroup::Impl::fail_from_outside(const Error& error, const std::string& operation) {
  record_failure(error, operation);
  queue_.let_running_end();
  point_to_point_.fail(failure());
}

std::exception_ptr ProcessGroup::Impl::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void ProcessGroup::Impl::rethrow_failure() const { std::rethrow_exception(failure()); }

}  // namespace tutti::comm
