#include <tutti/comm/trace.h>

#include <algorithm>
#include <cstdio>
#include <thread>

namespace tutti::comm {
namespace {

std::string duration_text(TraceClock::duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  char text[32];
  if (seconds >= 1) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  }
  return text;
}

/// The caller has just written `from` field by field. To load several of them in one piece, as the compiler would, a
/// processor waits until they have left it, and with them all that was written before: lines of other ranks.
void copy_by_field(Fingerprint& to, const Fingerprint& from) {
  const auto one_by_one = [] { std::atomic_signal_fence(std::memory_order_seq_cst); };
  to.group = from.group;
  one_by_one();
  to.seq = from.seq;
  one_by_one();
  to.count = from.count;
  one_by_one();
  to.root = from.root;
  one_by_one();
  to.op = from.op;
  one_by_one();
  to.dtype = from.dtype;
  one_by_one();
  to.reduce_op = from.reduce_op;
  one_by_one();
  to.user_op = from.user_op;
}

}  // namespace

std::string TraceEvent::to_string(TraceClock::time_point now) const {
  std::string text = operation.to_string();
  if (const std::string_view name = algorithm.text(); !name.empty()) (text += " by ") += name;
  switch (state) {
    case State::Running:
      return text + ": running for " + duration_text(now - start);
    case State::Done:
      return text + ": " + duration_text(end - start);
    case State::Failed:
      return text + ": failed after " + duration_text(end - start);
  }
  return text;
}

std::uint32_t TraceLog::add_group(const std::string& name) {
  std::lock_guard lock(mutex_);
  all_.groups.push_back(name);
  return static_cast<std::uint32_t>(all_.groups.size() - 1);
}

void TraceLog::add(std::uint32_t group, const TraceEvent& event) {
  std::lock_guard lock(mutex_);
  if (all_.entries.size() < kMaxEvents) {
    all_.entries.push_back({event, group});
  } else {
    ++all_.dropped;
  }
}

TraceLog::Snapshot TraceLog::snapshot() const {
  std::lock_guard lock(mutex_);
  return all_;
}

/// Spins: nobody holds it for longer than a copy takes, unless its holder has just lost its processor.
class FlightRecorder::Lock {
 public:
  explicit Lock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Lock() { flag_.clear(std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::atomic_flag& flag_;
};

FlightRecorder::FlightRecorder(const std::string& group, std::shared_ptr<TraceLog> log)
    : log_(std::move(log)), group_in_log_(log_ ? log_->add_group(group) : 0) {}

std::uint64_t FlightRecorder::begin(const Subject& subject, TraceClock::time_point start) {
  const Lock lock(busy_);
  TraceEvent& event = events_[begun_ % kEvents];
  copy_by_field(event.operation, subject.operation);
  event.bytes = subject.bytes;
  event.start = start;
  event.state = TraceEvent::State::Running;
  event.algorithm = subject.algorithm;
  return begun_++;
}

void FlightRecorder::end(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start,
                         TraceEvent::State state) {
  const auto now = TraceClock::now();
  {
    const Lock lock(busy_);
    TraceEvent& noted = events_[ticket % kEvents];
    if (begun_ - ticket <= kEvents) {  // else so many have begun since that another one stands there
      noted.end = now;
      noted.state = state;
    }
  }
  if (log_) log_->add(group_in_log_, {subject.operation, subject.bytes, start, now, state, subject.algorithm});
}

std::vector<TraceEvent> FlightRecorder::latest(std::size_t count) const {
  const Lock lock(busy_);
  const std::uint64_t kept = std::min({begun_, std::uint64_t{kEvents}, std::uint64_t{count}});
  std::vector<TraceEvent> result;
  for (std::uint64_t i = begun_ - kept; i < begun_; ++i) result.push_back(events_[i % kEvents]);
  return result;
}

}  // namespace tutti::comm
