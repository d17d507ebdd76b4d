// Drives the messages: the threads that wait for them, and the helper while none does.
#include <tutti/comm/point_to_point/point_to_point.h>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kHelperIdles(200);  // then its thread ends

}  // namespace

/// What fails becomes the group's failure.
void PointToPoint::drive_until(const Predicate& done, const Fingerprint& operation, Deadline deadline,
                               const std::vector<int>& awaited) try {
  Waiter waiter(transport_, monitor_, operation, deadline, options_.report_after);
  Hold hold(*this);
  while (!done()) {
    if (progress()) {
      waiter.progressed();
      hold.tell();
      continue;
    }
    if (done()) return;
    hold.unlock();
    const bool block = waiter.should_block();
    hold.lock();
    if (!block) continue;
    const auto links = links_of_interest();
    hold.unlock();
    waiter.block(links, awaited);
    hold.lock();
  }
} catch (const Error& error) {
  options_.on_failure(error, operation);
}

void PointToPoint::drive(Request& request) {
  drivers_.fetch_add(1);
  drive_until([&] { return request.is_completed(); }, request.fingerprint, request.deadline, awaited_by(request));
  leave_driving();
}

void PointToPoint::drain(const Fingerprint& operation) {
  drivers_.fetch_add(1);
  std::vector<int> receivers;
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
    for (const Posted& posted : outbox_) receivers.push_back(posted.link->peer());
  }
  drive_until([&] { return outbox_.empty(); }, operation, Deadline::after(options_.timeout), receivers);
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
  drive_until(over, operation, deadline, awaited);
  lock.lock();
}

std::vector<Link*> PointToPoint::links_of_interest() {
  const auto index = [](int peer) { return static_cast<std::size_t>(peer); };
  std::vector<bool> messages(index(world_size_)), answers(index(world_size_));
  for (const Posted& posted : outbox_) {
    const int peer = posted.link->peer();
    (posted.link == &transport_.messages(peer) ? messages : answers)[index(peer)] = true;
  }
  for (const auto& [peer_and_id, request] : announced_) answers[index(peer_and_id.first)] = true;
  std::vector<Link*> links;  // each once: there may be any number of messages
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    if (messages[index(peer)] || !losses_[index(peer)]) links.push_back(&transport_.messages(peer));
    if (answers[index(peer)]) links.push_back(&transport_.answers(peer));
  }
  return links;
}

std::vector<int> PointToPoint::awaited_by(const Request& request) const {
  if (request.peer >= 0) return {request.peer};
  std::vector<int> everybody;
  for (int peer = 0; peer < world_size_; ++peer)
    if (peer != rank_) everybody.push_back(peer);
  return everybody;
}

}  // namespace tutti::comm
