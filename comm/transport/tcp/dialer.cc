#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/transport/tcp/dialer.h>
#include <tutti/comm/transport/tcp/socket_util.h>

#include <algorithm>

namespace tutti::comm {

Dialer::Dialer(Options options) : options_(std::move(options)) { start_due(); }

/// Opens the next attempts: when none is under way, or the latest has had its head start.
void Dialer::start_due() {
  const auto now = Clock::now();
  while (next_ < options_.endpoints.size() && !chosen_ && (attempts_.empty() || now >= next_start_)) {
    const std::string& endpoint = options_.endpoints[next_++];
    next_start_ = now + options_.head_start;
    try {
      auto socket = options_.open(parse_endpoint(endpoint));
      if (options_.endpoints.size() > 1) socket->hold_proof();
      attempts_.push_back({endpoint, std::move(socket)});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::InvalidArgument) throw;
      add_failure(endpoint, error);
    }
  }
}

bool Dialer::advance() {
  const std::lock_guard lock(mutex_);
  for (bool changed = true; changed;) {
    changed = false;
    start_due();
    if (attempts_.empty() && next_ == options_.endpoints.size())
      throw Error(worst_.value_or(ErrorCode::PeerLost), failures_);
    for (std::size_t index = 0; index < attempts_.size(); ++index) {
      if (chosen_ && *chosen_ != index) continue;
      if (step(index, changed)) return true;
      if (changed) break;  // the attempts are others now
    }
  }
  warn_of_silence();
  return false;
}

bool Dialer::step(std::size_t index, bool& changed) {
  HandshakingSocket& socket = *attempts_[index].socket;
  try {
    if (socket.advance()) {
      chosen_ = index;
      if (options_.reached) options_.reached(attempts_[index].endpoint);
      return true;
    }
    if (!chosen_ && options_.endpoints.size() > 1 && socket.answered()) {
      chosen_ = index;
      socket.let_prove();
      changed = true;
    }
  } catch (const Error& error) {
    add_failure(attempts_[index].endpoint, error);
    attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(index));
    chosen_.reset();
    changed = true;
  }
  return false;
}

void Dialer::add_failure(const std::string& endpoint, const Error& error) {
  failures_ += failures_.empty() ? "" : "; ";
  // Errors of connections name the endpoint themselves.
  if (options_.endpoints.size() > 1 && error.code() != ErrorCode::PeerLost) failures_ += "at " + endpoint + ": ";
  failures_ += error.what();
  if (!worst_ || *worst_ == ErrorCode::PeerLost) worst_ = error.code();  // what the peer itself said counts more
}

int Dialer::native_handle() {
  if (chosen_) return chosen().native_handle();
  return attempts_.empty() ? -1 : attempts_.back().socket->native_handle();
}

bool Dialer::wants_to_write() {
  if (chosen_) return chosen().wants_to_write();
  return !attempts_.empty() && attempts_.back().socket->wants_to_write();
}

std::string Dialer::text_of_status() const {
  std::string text = format("for %.1f s: ", elapsed_seconds(started_));
  for (const Attempt& attempt : attempts_)
    text += (&attempt == &attempts_.front() ? "" : ", ") + (attempt.socket->is_connecting()
                                                                ? "no answer from " + attempt.endpoint
                                                                : attempt.endpoint + " has not let us in yet");
  return text + (attempts_.empty() || failures_.empty() ? "" : "; ") + failures_;
}

std::string Dialer::status() const {
  const std::lock_guard lock(mutex_);
  return text_of_status();
}

void Dialer::warn_of_silence() {
  if (warned_ || Clock::now() - started_ < options_.warn_after) return;
  // If any address accepted, the caller's timeout reports the rank; no warning is needed here.
  const auto answered = [](const Attempt& attempt) { return !attempt.socket->is_connecting(); };
  if (std::ranges::any_of(attempts_, answered)) return;
  warned_ = true;
  log(LogLevel::Warn, options_.from, " has been connecting to ", options_.to, " ", text_of_status(),
      ". Is there a firewall between the hosts, or is this the wrong network (TUTTI_IFACE)?");
}

}  // namespace tutti::comm
