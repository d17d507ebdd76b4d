// The fast path of short messages: one that leaves, or has come, during its call needs no request.
//
// A receive goes this way only while nothing else is under way, so that messages are matched in the order of the calls;
// any frame but exactly the message it wants stays unread, for the path with requests.
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/point_to_point/request.h>

namespace tutti::comm {
namespace {

constexpr int kLooks = 64;  // two microseconds in shared memory
constexpr int kTryAgainEvery = 16;

}  // namespace

bool PointToPoint::send_at_once(const ConstBuffer& data, int destination, int tag) {
  if (destination == rank_ || data.nbytes() > kEagerBytes) return false;
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const auto receiver = static_cast<std::size_t>(destination);
  const std::size_t bytes = kMessageBytes + data.nbytes();
  if (unsent_bytes_[receiver] + bytes > kUnsentBytes) return false;
  const FrameHeader header{FrameKind::Eager, fingerprint(OpKind::Send, data, tag), data.nbytes(), ++next_id_[receiver]};
  Link& link = transport_.messages(destination);
  if (link.post_whole(header, data.data)) return true;
  const std::size_t before = outbox_.size();
  post(link, header, data.data, nullptr);
  if (outbox_.size() == before) return true;
  unsent_bytes_[receiver] += outbox_.back().unsent_bytes = bytes;
  lock.unlock();
  ensure_helper();
  return true;
}

bool PointToPoint::recv_at_once(const Buffer& data, int source, int tag) {
  if (source < 0 || source == rank_ || data.nbytes() > kEagerBytes) return false;
  AtOnce outcome = take_at_once(data, source, tag);
  if (outcome != AtOnce::NotYet) return outcome == AtOnce::Taken;
  const Link& link = transport_.messages(source);
  for (int looks = looks_.worth(); looks > 0 && outcome == AtOnce::NotYet; --looks) {  // others may send meanwhile
    __builtin_ia32_pause();
    if (link.has_news()) outcome = take_at_once(data, source, tag);
  }
  looks_.were(outcome != AtOnce::NotYet);
  return outcome == AtOnce::Taken;
}

PointToPoint::AtOnce PointToPoint::take_at_once(const Buffer& data, int source, int tag) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const bool quiet = pending_.empty() && unexpected_.empty() && outbox_.empty();
  if (!quiet || losses_[static_cast<std::size_t>(source)] || arrivals_[static_cast<std::size_t>(source)].active)
    return AtOnce::Never;
  Link& link = transport_.messages(source);
  try {
    const FrameHeader* header = link.peek_into({static_cast<std::byte*>(data.data), data.nbytes()});
    if (!header) return AtOnce::NotYet;
    const bool wanted = header->kind == FrameKind::Eager && header->nbytes == data.nbytes() &&
                        same_message(header->fingerprint, fingerprint(OpKind::Recv, data, tag));
    if (!wanted || !link.payload_is_here()) {
      link.take_back();
      return AtOnce::Never;
    }
    link.read(data.data, data.nbytes());
    return AtOnce::Taken;
  } catch (const Error&) {
    return AtOnce::Never;  // the path with requests meets it again, and explains it
  }
}

/// Where ranks share CPUs the peer may need this one: polls while polls find something, and tries again now and then.
int PointToPoint::Looks::worth() const {
  if (always_ || in_vain_.load(std::memory_order_relaxed) % kTryAgainEvery == 0) return kLooks;
  return 0;
}

void PointToPoint::Looks::were(bool of_use) {
  in_vain_.store(of_use ? 0 : in_vain_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace tutti::comm
