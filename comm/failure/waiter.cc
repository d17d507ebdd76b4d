#include <sched.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/failure/waiter.h>

namespace tutti::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kPollAlone(4);       // after that, yield between polls: the peer may share this CPU
constexpr unsigned kFreePolls = 32;         // before the clock is read, which takes as long as a poll
constexpr microseconds kServiceEvery(200);  // accepts connections of peers: a system call
constexpr milliseconds kSlice(100);         // the longest sleep without a look at the deadline
constexpr milliseconds kConsultEvery(200);  // two slices
constexpr milliseconds kReportsAge(1000);   // this long before the deadline reports are read, to see which stop

std::string seconds_text(std::chrono::steady_clock::duration duration) {
  return format("%.1f s", std::chrono::duration<double>(duration).count());
}

std::string rank_list(const FailureMonitor& monitor, std::span<const int> ranks) {
  std::string text;
  for (const int rank : ranks) {
    const std::string rank_text = monitor.short_name(rank);
    text += text.empty() ? (ranks.size() == 1 ? rank_text : "ranks" + rank_text.substr(4)) : ", " + rank_text.substr(5);
  }
  return text;
}

}  // namespace

Waiter::Waiter(Transport& transport, FailureMonitor& monitor, const Fingerprint& operation, Deadline deadline,
               milliseconds report_after)
    : transport_(transport),
      monitor_(monitor),
      operation_(operation),
      deadline_(deadline),
      report_after_(report_after),
      poll_alone_(transport.oversubscribed() ? microseconds(0) : kPollAlone),
      poll_for_(transport.patience()),
      free_polls_(transport.oversubscribed() ? 0 : kFreePolls) {}

bool Waiter::should_block() {
  if (polls_ < free_polls_) {
    ++polls_;
    return false;
  }
  if (polls_++ == free_polls_) {
    start_ = last_consulted_ = std::chrono::steady_clock::now();
    reports_.reset();
    next_service_ = kServiceEvery;
    return false;
  }
  const auto waited = std::chrono::steady_clock::now() - start_;
  if (waited > next_service_) {
    next_service_ = waited + kServiceEvery;
    if (transport_.service()) return false;
  }
  if (waited > poll_for_) return true;  // and the last poll came after a yield
  if (waited > poll_alone_) ::sched_yield();
  return false;
}

void Waiter::block(std::span<Link* const> links, std::span<const int> awaited) {
  transport_.wait(links, std::min(kSlice, deadline_.remaining()));
  look_around(awaited);
}

void Waiter::block(const std::function<void(milliseconds)>& sleep, std::span<const int> awaited) {
  transport_.service();  // as transport_.wait() does on its own: peers may connect for messages meanwhile
  sleep(std::min(kSlice, deadline_.remaining()));
  look_around(awaited);
}

void Waiter::look_around(std::span<const int> awaited) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_consulted_ >= kConsultEvery) {
    last_consulted_ = now;
    consult(now - start_, awaited);
  }
  if (deadline_.expired()) time_out(awaited);
}

void Waiter::consult(Clock::duration waited, std::span<const int> awaited) {
  try {
    monitor_.check(awaited);
    monitor_.publish_wait(operation_, awaited);
    if (!reports_ && deadline_.remaining() < kReportsAge) reports_ = monitor_.reports();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) throw;  // a store that is silent for a while is no failure
  }
  if (waited < report_after_ || reported_) return;
  reported_ = true;
  log(LogLevel::Warn, monitor_.prefix(), operation_.to_string(), " has been waiting for ", rank_list(monitor_, awaited),
      " for ", seconds_text(waited));
}

void Waiter::time_out(std::span<const int> awaited) {
  const auto waited = std::chrono::steady_clock::now() - start_;
  throw Error(ErrorCode::Timeout, "timed out after ", seconds_text(waited), " of waiting for ",
              rank_list(monitor_, awaited), ": ", monitor_.diagnose(operation_, awaited, std::move(reports_)));
}

}  // namespace tutti::comm
