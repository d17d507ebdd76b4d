#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/point_to_point/request.h>

#include <algorithm>
#include <iterator>

namespace tutti::comm {

PointToPoint::PointToPoint(Transport& transport, FailureMonitor& monitor, PointToPointOptions options)
    : transport_(transport),
      monitor_(monitor),
      options_(std::move(options)),
      rank_(transport.rank()),
      world_size_(transport.world_size()),
      looks_(/*always=*/!transport.oversubscribed()),
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

PointToPoint::RequestPtr PointToPoint::start_send(const ConstBuffer& data, int destination, int tag,
                                                  Deadline deadline) {
  auto request = std::make_shared<Request>();
  request->engine = this;
  request->is_send = true;
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
    unexpected_.push_back({rank_, header, {bytes, bytes + data.nbytes()}, true, nullptr});
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
    return !message.claimed_by && (source < 0 || message.peer == source) && message.header.fingerprint.root == tag;
  };
  const auto message = std::find_if(unexpected_.begin(), unexpected_.end(), matches);
  if (message == unexpected_.end()) {
    posted_.push_back(request);
    return request;
  }
  claim(*message, request);
  if (!message->claimed_by) unexpected_.erase(message);
  return request;
}

void PointToPoint::finish(Request& request, int source) {
  request.source = source;
  request.done.store(true, std::memory_order_release);
  std::move(request.callbacks.begin(), request.callbacks.end(), std::back_inserter(due_));
  request.callbacks.clear();
  std::erase_if(pending_, [&](const RequestPtr& other) { return other.get() == &request; });
  if (sleepers_ > 0) changed_.notify_all();
}

void PointToPoint::fail(std::exception_ptr error) {
  const Hold hold(*this);
  if (failure_) return;
  failure_ = error;
  for (const RequestPtr& request : pending_) {
    request->error = error;
    request->done.store(true, std::memory_order_release);
    std::move(request->callbacks.begin(), request->callbacks.end(), std::back_inserter(due_));
  }
  pending_.clear();
  posted_.clear();
  announced_.clear();
  expected_.clear();
  changed_.notify_all();
}

}  // namespace tutti::comm
