#include <tutti/comm/point_to_point/point_to_point.h>

#include <algorithm>
#include <iterator>

namespace tutti::comm {
namespace {

constexpr int kLooks = 64;  // two microseconds in shared memory

}  // namespace

PointToPoint::PointToPoint(Transport& transport, FailureMonitor& monitor, PointToPointOptions options)
    : transport_(transport),
      monitor_(monitor),
      options_(std::move(options)),
      rank_(transport.rank()),
      world_size_(transport.world_size()),
      looks_(transport.oversubscribed() ? 0 : kLooks),
      arrivals_(static_cast<std::size_t>(world_size_)),
      unexpected_bytes_(static_cast<std::size_t>(world_size_)),
      unsent_bytes_(static_cast<std::size_t>(world_size_)),
      losses_(static_cast<std::size_t>(world_size_)),
      next_id_(static_cast<std::size_t>(world_size_)) {}

PointToPoint::~PointToPoint() {
  fail(std::make_exception_ptr(Error(ErrorCode::Aborted, "the group was destroyed before the message was complete")));
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    helper_needed_.notify_one();
  }
  transport_.wake();
  if (helper_.joinable()) helper_.join();
}

Work PointToPoint::isend(const ConstBuffer& data, int destination, int tag) {
  if (send_at_once(data, destination, tag)) return Work();
  auto request = start_send(data, destination, tag, Deadline::after(options_.timeout));
  ensure_helper();
  return Work(std::move(request));
}

Work PointToPoint::irecv(const Buffer& data, int source, int tag) {
  auto request = start_recv(data, source, tag, Deadline::after(options_.timeout));
  ensure_helper();
  return Work(std::move(request));
}

void PointToPoint::send(const ConstBuffer& data, int destination, int tag, Caller& caller) {
  if (!send_at_once(data, destination, tag)) Work(start_send(data, destination, tag, caller.deadline())).wait();
}

int PointToPoint::recv(const Buffer& data, int source, int tag, Caller& caller) {
  if (recv_at_once(data, source, tag)) return source;
  const RequestPtr request = start_recv(data, source, tag, caller.deadline());
  Work(request).wait();
  return request->source_rank();
}

int PointToPoint::sendrecv(const ConstBuffer& outgoing, int destination, int send_tag, const Buffer& incoming,
                           int source, int recv_tag, Caller& caller) {
  const Deadline deadline = caller.deadline();
  // The receive first: a message to this rank itself then goes straight to where it is wanted.
  const RequestPtr receive = start_recv(incoming, source, recv_tag, deadline);
  Work sent;
  if (!send_at_once(outgoing, destination, send_tag))
    sent = Work(start_send(outgoing, destination, send_tag, deadline));
  Work(receive).wait();
  sent.wait();
  return receive->source_rank();
}

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
  for (int looks = looks_; looks > 0 && outcome == AtOnce::NotYet; --looks) {  // others may send meanwhile
    __builtin_ia32_pause();
    if (link.has_news()) outcome = take_at_once(data, source, tag);
  }
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
    const FrameHeader* header = link.peek();
    if (!header) return AtOnce::NotYet;
    const bool wanted = header->kind == FrameKind::Eager && header->nbytes == data.nbytes() &&
                        same_message(header->fingerprint, fingerprint(OpKind::Recv, data, tag));
    if (!wanted || !link.payload_is_here()) return AtOnce::Never;
    link.read(data.data, data.nbytes());
    return AtOnce::Taken;
  } catch (const Error&) {
    return AtOnce::Never;  // the path with requests meets it again, and explains it
  }
}

PointToPoint::RequestPtr PointToPoint::start_send(const ConstBuffer& data, int destination, int tag,
                                                  Deadline deadline) {
  auto request = std::make_shared<Request>();
  request->engine = this;
  request->source_data = data.data;
  request->peer = destination;
  request->fingerprint = fingerprint(OpKind::Send, data, tag);
  request->deadline = deadline;
  const Hold hold(*this);
  if (failure_) std::rethrow_exception(failure_);
  const std::uint64_t id = ++next_id_[static_cast<std::size_t>(destination)];
  FrameHeader header{FrameKind::Eager, request->fingerprint, data.nbytes(), id};
  if (destination == rank_) {
    const auto* bytes = static_cast<const std::byte*>(data.data);
    const RequestPtr receive = take_posted(rank_, request->fingerprint);
    unexpected_.push_back({rank_, header, {bytes, bytes + data.nbytes()}, true});
    unexpected_bytes_[static_cast<std::size_t>(rank_)] += kMessageBytes + data.nbytes();
    if (receive) claim(unexpected_.back(), receive);
    if (receive) unexpected_.pop_back();
    finish(*request, -1);
    return request;
  }
  pending_.push_back(request);
  Link& link = transport_.messages(destination);
  if (data.nbytes() > kEagerBytes) {
    announced_[{destination, id}] = request;
    header.kind = FrameKind::RequestToSend;
    header.nbytes = 0;
    post(link, header, nullptr, nullptr);
    return request;
  }
  post(link, header, data.data, request);
  return request;
}

PointToPoint::RequestPtr PointToPoint::start_recv(const Buffer& data, int source, int tag, Deadline deadline) {
  auto request = std::make_shared<Request>();
  request->engine = this;
  request->data = data;
  request->peer = source;
  request->fingerprint = fingerprint(OpKind::Recv, data, tag);
  request->deadline = deadline;
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  pending_.push_back(request);
  const auto matches = [&](const Unexpected& message) {
    return (source < 0 || message.peer == source) && message.header.fingerprint.root == tag;
  };
  const auto message = std::find_if(unexpected_.begin(), unexpected_.end(), matches);
  if (message == unexpected_.end()) {
    posted_.push_back(request);
    return request;
  }
  claim(*message, request);
  unexpected_.erase(message);
  return request;
}

void PointToPoint::finish(Request& request, int source, std::exception_ptr error) {
  request.source = source;
  std::ranges::move(request.complete(std::move(error)), std::back_inserter(due_));
  std::erase_if(pending_, [&](const RequestPtr& other) { return other.get() == &request; });
}

void PointToPoint::fail(std::exception_ptr error) {
  const Hold hold(*this);
  if (failure_) return;
  failure_ = error;
  for (const RequestPtr& request : std::list(pending_)) finish(*request, -1, error);
  posted_.clear();
  announced_.clear();
  expected_.clear();
}

}  // namespace tutti::comm
