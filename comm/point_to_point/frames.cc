// What frames mean: matches messages with receives, announces long ones, and answers announcements.
#include <tutti/comm/point_to_point/point_to_point.h>

#include <algorithm>
#include <cstring>

namespace tutti::comm {
namespace {

/// By division: the count comes from the wire, and its product could overflow.
bool length_is_that_of_the_elements(const FrameHeader& header) {
  const std::size_t element_bytes = size_of(header.fingerprint.dtype);
  return header.nbytes % element_bytes == 0 && header.nbytes / element_bytes == header.fingerprint.count;
}

}  // namespace

bool PointToPoint::progress() {
  if (failure_) std::rethrow_exception(failure_);
  bool moved = false;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    if (!losses_[static_cast<std::size_t>(peer)]) moved |= progress_messages(peer);
    const bool sent = progress_sends(peer);
    moved |= sent;
    if (losses_[static_cast<std::size_t>(peer)] && !sent) notice_loss(peer);  // it may have answered before it left
  }
  const auto left = std::erase_if(outbox_, [&](const Posted& posted) {
    if (!posted.frame.done()) return false;
    if (posted.request) finish(*posted.request, -1);
    unsent_bytes_[static_cast<std::size_t>(posted.link->peer())] -= posted.unsent_bytes;
    return true;
  });
  return moved || left > 0;
}

/// Reads what the peer sends.
bool PointToPoint::progress_messages(int peer) {
  Link& link = transport_.messages(peer);
  Arrival& arrival = arrivals_[static_cast<std::size_t>(peer)];
  bool moved = false;
  try {
    for (;;) {
      if (!arrival.active) {
        const FrameHeader* header = link.peek();
        if (!header || !begin_arrival(peer, *header)) return moved;
      }
      const std::size_t came = link.read(arrival.target + arrival.arrived, arrival.nbytes - arrival.arrived);
      arrival.arrived += came;
      if (arrival.arrived < arrival.nbytes && came == 0) return moved;
      moved = true;
      if (arrival.arrived < arrival.nbytes) continue;
      if (arrival.request) finish(*arrival.request, peer);
      if (arrival.unexpected) arrival.unexpected->complete = true;
      arrival = {};
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::PeerLost || arrival.active) throw;
    losses_[static_cast<std::size_t>(peer)] = error;
    return moved;
  }
}

/// The loss of a peer fails only operations that await a message or an answer of it, now or later. While this rank
/// leaves, too, the others may be gone in good order, and a receive from any rank need not mean them.
void PointToPoint::notice_loss(int peer) {
  const bool missed = std::any_of(pending_.begin(), pending_.end(), [&](const RequestPtr& request) {
    return request->peer == peer || (request->peer < 0 && !leaving_);
  });
  if (missed) monitor_.explain_loss(*losses_[static_cast<std::size_t>(peer)], std::span(&peer, 1));
}

/// Sends what waits for room, and reads the peer's answers.
bool PointToPoint::progress_sends(int peer) {
  const auto first = announced_.lower_bound({peer, 0});
  const bool waits_for_answer = first != announced_.end() && first->first.first == peer;
  Link& messages = transport_.messages(peer);
  Link& answers = transport_.answers(peer);
  try {
    if (outbox_.empty() && !waits_for_answer) return false;
    messages.flush();
    answers.flush();
    if (!waits_for_answer) return false;
    const FrameHeader* header = answers.peek();
    if (!header) return false;
    const auto announced = announced_.find({peer, header->id});
    if (header->kind != FrameKind::ClearToSend || announced == announced_.end())
      throw Error(ErrorCode::Protocol, "unexpected answer from ", monitor_.describe(peer));
    answers.read(nullptr, 0);
    const RequestPtr request = announced->second;
    const std::uint64_t id = announced->first.second;
    announced_.erase(announced);
    const std::size_t nbytes = request->fingerprint.count * size_of(request->fingerprint.dtype);
    post(messages, {FrameKind::Rendezvous, request->fingerprint, nbytes, id}, request->source_data, request);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::PeerLost) monitor_.explain_loss(error, std::span(&peer, 1));
    throw;
  }
}

bool PointToPoint::begin_arrival(int peer, const FrameHeader& header) {
  Arrival& arrival = arrivals_[static_cast<std::size_t>(peer)];
  auto& kept = unexpected_bytes_[static_cast<std::size_t>(peer)];
  arrival = {};
  arrival.nbytes = header.nbytes;
  const bool eager =
      header.kind == FrameKind::Eager && header.nbytes <= kEagerBytes && length_is_that_of_the_elements(header);
  const bool announcement = header.kind == FrameKind::RequestToSend && header.nbytes == 0;
  if (header.kind == FrameKind::Rendezvous) {
    const auto expected = expected_.find({peer, header.id});
    if (expected == expected_.end() || expected->second->data.nbytes() != header.nbytes)
      throw Error(ErrorCode::Protocol, monitor_.describe(peer), " sent a message that nobody has asked for");
    arrival.request = expected->second;
    expected_.erase(expected);
  } else if (!eager && !announcement) {
    throw Error(ErrorCode::Protocol, "unexpected frame from ", monitor_.describe(peer), ": ",
                header.fingerprint.to_string(), ", kind ", static_cast<int>(header.kind), ", with ", header.nbytes,
                " bytes");
  } else if (RequestPtr receive = take_posted(peer, header.fingerprint)) {
    if (announcement) clear_to_send(peer, header, receive);
    if (eager) arrival.request = receive;
  } else {
    if (kept + kMessageBytes + header.nbytes > kUnexpectedBytes) return false;
    kept += kMessageBytes + header.nbytes;
    unexpected_.push_back({peer, header, std::vector<std::byte>(header.nbytes), announcement});
    if (eager) arrival.unexpected = &unexpected_.back();
  }
  arrival.active = true;
  if (arrival.request) arrival.target = static_cast<std::byte*>(arrival.request->data.data);
  if (arrival.unexpected) arrival.target = arrival.unexpected->payload.data();
  return true;
}

PointToPoint::RequestPtr PointToPoint::take_posted(int peer, const Fingerprint& sent) {
  const auto found = std::find_if(posted_.begin(), posted_.end(), [&](const RequestPtr& receive) {
    return (receive->peer < 0 || receive->peer == peer) && receive->fingerprint.root == sent.root;
  });
  if (found == posted_.end()) return nullptr;
  const RequestPtr receive = *found;
  posted_.erase(found);
  check_same(*receive, peer, sent);
  return receive;
}

Fingerprint PointToPoint::fingerprint(OpKind op, const ConstBuffer& data, int tag) const {
  return {.group = options_.group, .count = data.count, .root = tag, .op = op, .dtype = data.dtype};
}

bool PointToPoint::same_message(const Fingerprint& ours, const Fingerprint& sent) {
  return ours.root == sent.root && ours.dtype == sent.dtype && ours.count == sent.count && ours.group == sent.group;
}

void PointToPoint::check_same(const Request& receive, int peer, const Fingerprint& sent) const {
  if (same_message(receive.fingerprint, sent)) return;
  throw Error(ErrorCode::Mismatch, monitor_.short_name(rank_), " called ", receive.fingerprint.to_string(), ", but ",
              monitor_.describe(peer), " called ", sent.to_string());
}

/// Gives an unexpected message to `receive`; what is still to arrive of its payload goes there directly.
void PointToPoint::claim(const Unexpected& message, const RequestPtr& receive) {
  check_same(*receive, message.peer, message.header.fingerprint);
  const auto peer = static_cast<std::size_t>(message.peer);
  unexpected_bytes_[peer] -= kMessageBytes + message.payload.size();
  if (message.header.kind == FrameKind::RequestToSend) return clear_to_send(message.peer, message.header, receive);
  auto* const target = static_cast<std::byte*>(receive->data.data);
  if (!message.payload.empty())
    std::memcpy(target, message.payload.data(), message.complete ? message.payload.size() : arrivals_[peer].arrived);
  if (message.complete) return finish(*receive, message.peer);
  arrivals_[peer].unexpected = nullptr;
  arrivals_[peer].request = receive;
  arrivals_[peer].target = target;
}

void PointToPoint::clear_to_send(int peer, const FrameHeader& announced, const RequestPtr& receive) {
  if (!expected_.emplace(std::pair(peer, announced.id), receive).second)
    throw Error(ErrorCode::Protocol, monitor_.describe(peer), " announced message ", announced.id,
                " a second time while its payload was awaited");
  post(transport_.answers(peer), {FrameKind::ClearToSend, announced.fingerprint, 0, announced.id}, nullptr, nullptr);
}

/// The payload of a frame with a request belongs to the caller until that request is finished; that of one without is
/// copied if it cannot leave at once.
void PointToPoint::post(Link& link, const FrameHeader& header, const void* payload, RequestPtr request) {
  Posted& posted = outbox_.emplace_back();
  posted.link = &link;
  posted.frame.header = header;
  posted.frame.payload = payload;
  posted.request = std::move(request);
  link.post(posted.frame);
  if (posted.frame.done()) {
    if (const RequestPtr sent = std::exchange(posted.request, nullptr)) finish(*sent, -1);
    outbox_.pop_back();
  } else if (!posted.request && header.nbytes > 0) {
    const auto* bytes = static_cast<const std::byte*>(payload);
    posted.owned.assign(bytes, bytes + header.nbytes);
    posted.frame.payload = posted.owned.data();
  }
}

}  // namespace tutti::comm
