#include <tutti/comm/base/deadline.h>
#include <tutti/comm/point_to_point.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kHelperIdles(200);  // then its thread ends

/// By division: the count comes from the wire, and its product could overflow to anything.
bool length_is_that_of_the_elements(const FrameHeader& header) {
  const std::size_t element_bytes = size_of(header.fingerprint.dtype);
  return header.nbytes % element_bytes == 0 && header.nbytes / element_bytes == header.fingerprint.count;
}

}  // namespace

/// One isend or irecv; also the state behind its Work, which may outlive the engine.
struct PointToPoint::Request final : WorkState {
  PointToPoint* engine = nullptr;
  bool is_send = false;
  Buffer data;                        // of a receive
  const void* source_data = nullptr;  // of a send
  int peer = -1;                      // -1: any
  Fingerprint fingerprint;
  Deadline deadline{Deadline::Clock::time_point{}};
  int source = -1;
  std::exception_ptr error;  // written before done
  std::atomic<bool> done{false};

  bool is_completed() const override { return done.load(std::memory_order_acquire); }
  std::exception_ptr exception() const override { return is_completed() ? error : nullptr; }
  int source_rank() const override { return is_completed() ? source : -1; }

  void wait() override {
    if (!is_completed()) engine->drive(*this);
  }

  bool wait_for(std::chrono::milliseconds timeout) override {
    if (is_completed()) return true;
    std::unique_lock lock(engine->mutex_);
    ++engine->sleepers_;
    const bool completed = engine->changed_.wait_for(lock, timeout, [&] { return is_completed(); });
    --engine->sleepers_;
    return completed;
  }
};

PointToPoint::PointToPoint(Transport& transport, FailureMonitor& monitor, PointToPointOptions options)
    : transport_(transport),
      monitor_(monitor),
      options_(std::move(options)),
      rank_(transport.rank()),
      world_size_(transport.world_size()),
      arrivals_(static_cast<std::size_t>(world_size_)),
      unexpected_bytes_(static_cast<std::size_t>(world_size_)),
      finished_peers_(static_cast<std::size_t>(world_size_)),
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

Work PointToPoint::isend(ConstBuffer data, int destination, int tag) {
  auto request = start_send(data, destination, tag);
  ensure_helper();
  return Work(std::move(request));
}

Work PointToPoint::irecv(Buffer data, int source, int tag) {
  auto request = start_recv(data, source, tag);
  ensure_helper();
  return Work(std::move(request));
}

void PointToPoint::send(ConstBuffer data, int destination, int tag) {
  const RequestPtr request = start_send(data, destination, tag);
  if (request->is_completed()) return ensure_helper();  // for what could not leave at once
  Work(request).wait();
}

int PointToPoint::recv(Buffer data, int source, int tag) {
  const RequestPtr request = start_recv(data, source, tag);
  Work(request).wait();
  return request->source_rank();
}

PointToPoint::RequestPtr PointToPoint::start_send(ConstBuffer data, int destination, int tag) {
  auto request = std::make_shared<Request>();
  request->engine = this;
  request->is_send = true;
  request->source_data = data.data;
  request->peer = destination;
  request->fingerprint = {
      .group = options_.group, .count = data.count, .root = tag, .op = OpKind::Send, .dtype = data.dtype};
  request->deadline = Deadline::after(options_.timeout);
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const std::uint64_t id = ++next_id_[static_cast<std::size_t>(destination)];
  FrameHeader header{FrameKind::Eager, request->fingerprint, data.nbytes(), id};
  if (destination == rank_) {
    const auto* bytes = static_cast<const std::byte*>(data.data);
    const RequestPtr receive = take_posted(rank_, request->fingerprint);
    unexpected_.push_back({rank_, header, {bytes, bytes + data.nbytes()}, true, nullptr});
    if (receive) claim(unexpected_.back(), receive);
    if (receive) unexpected_.pop_back();
    finish(*request, -1);
    return request;
  }
  pending_.push_back(request);
  Link& link = transport_.outgoing(destination);
  if (data.nbytes() > kEagerBytes) {
    announced_[{destination, id}] = request;
    header.kind = FrameKind::RequestToSend;
    header.nbytes = 0;
    post(link, header, nullptr, nullptr);
    return request;
  }
  post(link, header, data.data, nullptr);
  finish(*request, -1);
  return request;
}

PointToPoint::RequestPtr PointToPoint::start_recv(Buffer data, int source, int tag) {
  auto request = std::make_shared<Request>();
  request->engine = this;
  request->data = data;
  request->peer = source;
  request->fingerprint = {
      .group = options_.group, .count = data.count, .root = tag, .op = OpKind::Recv, .dtype = data.dtype};
  request->deadline = Deadline::after(options_.timeout);
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
  std::erase_if(pending_, [&](const RequestPtr& other) { return other.get() == &request; });
  if (sleepers_ > 0) changed_.notify_all();
}

void PointToPoint::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  for (const RequestPtr& request : pending_) {
    request->error = error;
    request->done.store(true, std::memory_order_release);
  }
  pending_.clear();
  posted_.clear();
  announced_.clear();
  expected_.clear();
  changed_.notify_all();
}

// --- Waiting
// -----------------------------------------------------------------------------------------------------------

void PointToPoint::drive_until(const Predicate& done, Waiter& waiter, const std::vector<int>& awaited) {
  std::unique_lock lock(mutex_);
  while (!done()) {
    if (progress()) {
      waiter.progressed();
      continue;
    }
    if (done()) return;
    lock.unlock();
    const bool block = waiter.should_block();
    lock.lock();
    if (!block) continue;
    const auto links = links_of_interest();
    lock.unlock();
    waiter.block(links, awaited);
    lock.lock();
  }
}

void PointToPoint::drive(Request& request) {
  drivers_.fetch_add(1);
  try {
    Waiter waiter(transport_, monitor_, request.fingerprint, request.deadline, options_.report_after);
    drive_until([&] { return request.is_completed(); }, waiter, awaited_by(request));
  } catch (const Error& error) {
    options_.on_failure(error, request.fingerprint);
  }
  leave_driving();
}

void PointToPoint::drain(const Fingerprint& operation) {
  drivers_.fetch_add(1);
  std::vector<int> receivers;
  {
    std::lock_guard lock(mutex_);
    for (const Posted& posted : outbox_) receivers.push_back(posted.link->peer());
  }
  try {
    Waiter waiter(transport_, monitor_, operation, Deadline::after(options_.timeout), options_.report_after);
    drive_until([&] { return outbox_.empty(); }, waiter, receivers);
  } catch (const Error& error) {
    options_.on_failure(error, operation);
  }
  leave_driving();
}

void PointToPoint::leave_driving() {
  if (drivers_.fetch_sub(1) == 1) ensure_helper();
}

void PointToPoint::ensure_helper() {
  std::lock_guard lock(mutex_);
  if (!has_work() || drivers_ > 0 || stopping_) return;
  if (helper_alive_) return helper_needed_.notify_one();
  if (helper_.joinable()) helper_.join();
  helper_alive_ = true;
  helper_ = std::thread([this] { help(); });
}

void PointToPoint::help() {
  std::unique_lock lock(mutex_);
  const auto needed = [&] { return stopping_ || (has_work() && drivers_ == 0); };
  while (helper_needed_.wait_for(lock, kHelperIdles, needed) && !stopping_) help_oldest(lock);
  helper_alive_ = false;
}

/// Drives on behalf of the oldest unfinished message, and with it all others, until a user's thread takes over.
void PointToPoint::help_oldest(std::unique_lock<std::mutex>& lock) {
  const RequestPtr oldest = pending_.empty() ? nullptr : pending_.front();
  const Fingerprint operation = oldest ? oldest->fingerprint : outbox_.front().frame.header.fingerprint;
  const Deadline deadline = oldest ? oldest->deadline : Deadline::after(options_.timeout);
  const std::vector<int> awaited = oldest ? awaited_by(*oldest) : std::vector<int>{outbox_.front().link->peer()};
  const auto over = [&] { return stopping_ || drivers_ > 0 || !has_work() || (oldest && oldest->is_completed()); };
  lock.unlock();
  try {
    Waiter waiter(transport_, monitor_, operation, deadline, options_.report_after);
    drive_until(over, waiter, awaited);
  } catch (const Error& error) {
    options_.on_failure(error, operation);
  }
  lock.lock();
}

std::vector<Link*> PointToPoint::links_of_interest() {
  std::vector<Link*> links;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    if (!finished_peers_[static_cast<std::size_t>(peer)]) links.push_back(&transport_.incoming(peer));
  }
  for (const Posted& posted : outbox_) links.push_back(posted.link);
  for (const auto& [peer_and_id, request] : announced_) links.push_back(&transport_.outgoing(peer_and_id.first));
  return links;
}

std::vector<int> PointToPoint::awaited_by(const Request& request) const {
  if (request.peer >= 0) return {request.peer};
  std::vector<int> everybody;
  for (int peer = 0; peer < world_size_; ++peer)
    if (peer != rank_) everybody.push_back(peer);
  return everybody;
}

// --- Progress
// ----------------------------------------------------------------------------------------------------------

bool PointToPoint::progress() {
  if (failure_) std::rethrow_exception(failure_);
  bool moved = false;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    if (!finished_peers_[static_cast<std::size_t>(peer)]) moved |= progress_incoming(peer);
    moved |= progress_outgoing(peer);
  }
  const auto left = std::erase_if(outbox_, [&](const Posted& posted) {
    if (!posted.frame.done()) return false;
    if (posted.request) finish(*posted.request, -1);
    return true;
  });
  return moved || left > 0;
}

bool PointToPoint::progress_incoming(int peer) {
  Link& link = transport_.incoming(peer);
  Arrival& arrival = arrivals_[static_cast<std::size_t>(peer)];
  bool moved = false;
  try {
    link.flush();
    for (;;) {
      if (!arrival.active) {
        const FrameHeader* header = link.peek();
        if (!header || !begin_arrival(peer, *header)) return moved;
      }
      const std::size_t came = link.read(arrival.target + arrival.arrived, arrival.nbytes - arrival.arrived);
      arrival.arrived += came;
      if (arrival.arrived < arrival.nbytes && came == 0) return moved;
      moved = true;
      if (arrival.arrived == arrival.nbytes) finish_arrival(peer);
    }
  } catch (const Error& error) {
    // A peer that has ended in good order is missed only by those who wait for it; the waiter finds out who that is.
    if (error.code() != ErrorCode::PeerLost || arrival.active) throw;
    finished_peers_[static_cast<std::size_t>(peer)] = true;
    const bool missed = std::any_of(pending_.begin(), pending_.end(), [&](const RequestPtr& request) {
      return !request->is_send && request->peer == peer;
    });
    if (missed) monitor_.explain_loss(error, std::span(&peer, 1));
    return moved;
  }
}

bool PointToPoint::progress_outgoing(int peer) {
  const auto first = announced_.lower_bound({peer, 0});
  const bool waits_for_answer = first != announced_.end() && first->first.first == peer;
  Link& link = transport_.outgoing(peer);
  try {
    if (outbox_.empty() && !waits_for_answer) return false;
    link.flush();
    if (!waits_for_answer) return false;
    const FrameHeader* header = link.peek();
    if (!header) return false;
    const auto announced = announced_.find({peer, header->id});
    if (header->kind != FrameKind::ClearToSend || announced == announced_.end())
      throw Error(ErrorCode::Protocol, "unexpected answer from " + monitor_.describe(peer));
    link.read(nullptr, 0);
    const RequestPtr request = announced->second;
    const std::uint64_t id = announced->first.second;
    announced_.erase(announced);
    const std::size_t nbytes = request->fingerprint.count * size_of(request->fingerprint.dtype);
    post(link, {FrameKind::Rendezvous, request->fingerprint, nbytes, id}, request->source_data, request);
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
      throw Error(ErrorCode::Protocol, monitor_.describe(peer) + " sent a message that nobody has asked for");
    arrival.request = expected->second;
    expected_.erase(expected);
  } else if (!eager && !announcement) {
    throw Error(ErrorCode::Protocol, "unexpected frame from " + monitor_.describe(peer) + ": " +
                                         header.fingerprint.to_string() + ", kind " +
                                         std::to_string(static_cast<int>(header.kind)) + ", with " +
                                         std::to_string(header.nbytes) + " bytes");
  } else if (RequestPtr receive = take_posted(peer, header.fingerprint)) {
    if (announcement) clear_to_send(peer, header, receive);
    if (eager) arrival.request = receive;
  } else {
    if (kept + header.nbytes > kUnexpectedBytes) return false;
    kept += header.nbytes;
    unexpected_.push_back({peer, header, std::vector<std::byte>(header.nbytes), announcement, nullptr});
    if (eager) arrival.unexpected = &unexpected_.back();
  }
  arrival.active = true;
  if (arrival.request) arrival.target = static_cast<std::byte*>(arrival.request->data.data);
  if (arrival.unexpected) arrival.target = arrival.unexpected->payload.data();
  return true;
}

void PointToPoint::finish_arrival(int peer) {
  Arrival& arrival = arrivals_[static_cast<std::size_t>(peer)];
  if (arrival.request) finish(*arrival.request, peer);
  if (arrival.unexpected) {
    arrival.unexpected->complete = true;
    if (const RequestPtr receive = std::exchange(arrival.unexpected->claimed_by, nullptr)) {
      claim(*arrival.unexpected, receive);
      unexpected_.remove_if([&](const Unexpected& message) { return &message == arrival.unexpected; });
    }
  }
  arrival = {};
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

void PointToPoint::check_same(const Request& receive, int peer, const Fingerprint& sent) const {
  const Fingerprint& ours = receive.fingerprint;
  if (ours.dtype == sent.dtype && ours.count == sent.count && ours.group == sent.group) return;
  throw Error(ErrorCode::Mismatch, "rank " + std::to_string(rank_) + " called " + ours.to_string() + ", but " +
                                       monitor_.describe(peer) + " called " + sent.to_string());
}

/// Gives an unexpected message to `receive`, or reserves it while its payload is still arriving.
void PointToPoint::claim(Unexpected& message, const RequestPtr& receive) {
  check_same(*receive, message.peer, message.header.fingerprint);
  if (!message.complete) {
    message.claimed_by = receive;
    return;
  }
  if (message.header.kind == FrameKind::RequestToSend) return clear_to_send(message.peer, message.header, receive);
  if (!message.payload.empty()) std::memcpy(receive->data.data, message.payload.data(), message.payload.size());
  unexpected_bytes_[static_cast<std::size_t>(message.peer)] -= message.peer == rank_ ? 0 : message.payload.size();
  finish(*receive, message.peer);
}

void PointToPoint::clear_to_send(int peer, const FrameHeader& announced, const RequestPtr& receive) {
  expected_[{peer, announced.id}] = receive;
  post(transport_.incoming(peer), {FrameKind::ClearToSend, announced.fingerprint, 0, announced.id}, nullptr, nullptr);
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
    if (posted.request) finish(*posted.request, -1);
    outbox_.pop_back();
  } else if (!posted.request && header.nbytes > 0) {
    const auto* bytes = static_cast<const std::byte*>(payload);
    posted.owned.assign(bytes, bytes + header.nbytes);
    posted.frame.payload = posted.owned.data();
  }
}

}  // namespace tutti::comm
