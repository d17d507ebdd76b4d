// The short way of short messages: one that leaves, or has come, while its call runs needs no request.
//
// A receive goes this way only while nothing else is under way, so that messages are matched in the order of the calls;
// whatever is not exactly the message it wants is left where it is, for the long way to deal with.
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/point_to_point/request.h>

namespace tutti::comm {
namespace {

// Well under a microsecond, for which the lock is held. A peer that needs the processor gets it after the first look.
constexpr int kLooks = 64;

}  // namespace

bool PointToPoint::send_at_once(ConstBuffer data, int destination, int tag) {
  if (destination == rank_ || data.nbytes() > kEagerBytes) return false;
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const auto receiver = static_cast<std::size_t>(destination);
  const std::size_t bytes = kMessageBytes + data.nbytes();
  if (unsent_bytes_[receiver] + bytes > kUnsentBytes) return false;
  const std::size_t before = outbox_.size();
  post(transport_.outgoing(destination),
       {FrameKind::Eager, fingerprint(OpKind::Send, data, tag), data.nbytes(), ++next_id_[receiver]}, data.data,
       nullptr);
  if (outbox_.size() == before) return true;
  unsent_bytes_[receiver] += outbox_.back().unsent_bytes = bytes;
  lock.unlock();
  ensure_helper();
  return true;
}

bool PointToPoint::recv_at_once(Buffer data, int source, int tag) {
  if (source < 0 || source == rank_ || data.nbytes() > kEagerBytes) return false;
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const bool quiet = pending_.empty() && unexpected_.empty() && outbox_.empty();
  if (!quiet || losses_[static_cast<std::size_t>(source)] || arrivals_[static_cast<std::size_t>(source)].active)
    return false;
  Link& link = transport_.incoming(source);
  try {
    const FrameHeader* header = link.peek();
    for (int looks = patient_ ? kLooks : 1; !header && looks > 1; --looks) header = link.peek();
    const bool wanted = header && header->kind == FrameKind::Eager && header->nbytes == data.nbytes() &&
                        same_message(header->fingerprint, fingerprint(OpKind::Recv, data, tag));
    if (!wanted || !link.payload_is_here()) return false;
    link.read(data.data, data.nbytes());
    return true;
  } catch (const Error&) {
    return false;  // the long way meets it again, and explains it
  }
}

}  // namespace tutti::comm
