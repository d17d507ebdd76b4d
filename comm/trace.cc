#include <tutti/comm/base/format.h>
#include <tutti/comm/trace.h>

#include <algorithm>

namespace tutti::comm {
namespace {

std::string duration_text(TraceClock::duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  return seconds >= 1 ? format("%.1f s", seconds) : format("%.3f ms", seconds * 1e3);
}

}  // namespace

std::string TraceEvent::to_string(TraceClock::time_point now) const {
  std::string text = operation.to_string();
  if (*algorithm != '\0') (text += " by ") += algorithm;
  const bool timed = start != kNotTimed;
  switch (state) {
    case State::Running:
      return text + ": running" + (timed ? " for " + duration_text(now - start) : "");
    case State::Done:
      return text + ": " + (timed ? duration_text(end - start) : "at once");
    case State::Failed:
      return text + ": failed " + (timed ? "after " + duration_text(end - start) : "at once");
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

FlightRecorder::FlightRecorder(const std::string& group, std::shared_ptr<TraceLog> log)
    : log_(std::move(log)), group_in_log_(log_ ? log_->add_group(group) : 0) {}

FlightRecorder::Ring& FlightRecorder::ring_of(const Fingerprint& operation) {
  return is_message(operation.op) ? messages_ : collectives_;
}

std::uint64_t FlightRecorder::begin(const Subject& subject, TraceClock::time_point start) {
  Ring& ring = ring_of(subject.operation);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const std::uint64_t number = ring.begun.load(kRelaxed) + 1;
  const std::uint64_t order = collectives_.begun.load(kRelaxed) + messages_.begun.load(kRelaxed);
  ring.slot(number).begin(number, order, subject, start);
  ring.begun.store(number, std::memory_order_release);
  return number;
}

void FlightRecorder::waits(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start) {
  ring_of(subject.operation).slot(ticket).waits(ticket, start);
}

void FlightRecorder::end(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start,
                         TraceEvent::State state) {
  if (start != TraceEvent::kNotTimed) return end_timed(ticket, subject, start, state);
  ring_of(subject.operation).slot(ticket).end(ticket, start, state);
}

void FlightRecorder::end_timed(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start,
                               TraceEvent::State state) {
  const auto now = TraceClock::now();
  ring_of(subject.operation).slot(ticket).end(ticket, now, state);
  if (log_) log_->add(group_in_log_, {subject.operation, subject.bytes, start, now, state, subject.algorithm});
}

std::vector<TraceEvent> FlightRecorder::latest(std::size_t count) const {
  std::vector<TraceEvent> events;
  collectives_.add_to(events);
  const auto middle = static_cast<std::ptrdiff_t>(events.size());
  messages_.add_to(events);
  std::inplace_merge(events.begin(), events.begin() + middle, events.end(),
                     [](const TraceEvent& a, const TraceEvent& b) { return a.order < b.order; });
  const std::size_t kept = std::min(kEvents, count);
  if (events.size() > kept) events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(kept));
  return events;
}

void FlightRecorder::Ring::add_to(std::vector<TraceEvent>& events) const {
  const std::uint64_t last = begun.load(std::memory_order_acquire);
  for (std::uint64_t number = last - std::min(last, std::uint64_t{kEvents}) + 1; number <= last; ++number)
    if (const auto event = slot(number).read(number)) events.push_back(*event);
}

/// Stores field by field: a wide load of what the caller has just written in narrow stores would stall (no store
/// forwarding) until these, and all stores before them, are done.
void FlightRecorder::Slot::begin(std::uint64_t number, std::uint64_t order, const Subject& subject,
                                 TraceClock::time_point start) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  number_.store(0, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const Fingerprint& f = subject.operation;
  order_.store(order, kRelaxed);
  group_.store(f.group, kRelaxed);
  seq_.store(f.seq, kRelaxed);
  count_.store(f.count, kRelaxed);
  bytes_.store(subject.bytes, kRelaxed);
  root_.store(f.root, kRelaxed);
  op_.store(f.op, kRelaxed);
  dtype_.store(f.dtype, kRelaxed);
  reduce_op_.store(f.reduce_op, kRelaxed);
  user_op_.store(f.user_op, kRelaxed);
  start_.store(start.time_since_epoch().count(), kRelaxed);
  state_.store(TraceEvent::State::Running, kRelaxed);
  algorithm_.store(subject.algorithm, kRelaxed);
  number_.store(number, std::memory_order_release);
}

void FlightRecorder::Slot::waits(std::uint64_t number, TraceClock::time_point start) {
  if (number_.load(std::memory_order_relaxed) == number)  // else it has been overwritten
    start_.store(start.time_since_epoch().count(), std::memory_order_relaxed);
}

void FlightRecorder::Slot::end(std::uint64_t number, TraceClock::time_point now, TraceEvent::State state) {
  if (number_.load(std::memory_order_relaxed) != number) return;  // overwritten: so many have begun since
  end_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  state_.store(state, std::memory_order_release);
}

std::optional<TraceEvent> FlightRecorder::Slot::read(std::uint64_t number) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const auto time = [](const std::atomic<TraceClock::rep>& word) {
    return TraceClock::time_point(TraceClock::duration(word.load(kRelaxed)));
  };
  if (number_.load(std::memory_order_acquire) != number) return std::nullopt;
  TraceEvent event{
      .operation = {group_.load(kRelaxed), seq_.load(kRelaxed), count_.load(kRelaxed), root_.load(kRelaxed),
                    op_.load(kRelaxed), dtype_.load(kRelaxed), reduce_op_.load(kRelaxed), user_op_.load(kRelaxed)},
      .bytes = bytes_.load(kRelaxed),
      .start = time(start_),
      .state = state_.load(std::memory_order_acquire)};
  event.end = time(end_);
  event.order = order_.load(kRelaxed);
  event.algorithm = algorithm_.load(kRelaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (number_.load(kRelaxed) != number) return std::nullopt;
  return event;
}

}  // namespace tutti::comm
