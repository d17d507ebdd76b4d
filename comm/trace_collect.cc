// Reports a group's operations: after a failure, and at its end, when rank 0 collects the ranks' traces, clocks first,
// then the events as text.
#include <tutti/comm/base/log.h>
#include <tutti/comm/process_group_impl.h>
#include <tutti/comm/trace_file.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace tutti::comm {
namespace {

constexpr int kTraceTag = std::numeric_limits<int>::min();  // no message of the caller's is likely to have it
constexpr int kRounds = 16;
constexpr std::size_t kOperationsInText = 2;  // of an error
constexpr std::size_t kOperationsInLog = 5;   // at level Info; all of them at level Debug

std::int64_t nanoseconds(TraceClock::time_point time) { return time.time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

ProcessGroup::Impl::Recorded::Recorded(FlightRecorder& recorder, std::chrono::milliseconds timeout,
                                       const Fingerprint& operation, std::uint64_t bytes,
                                       const AlgorithmName& algorithm)
    : recorder_(recorder),
      timeout_(timeout),
      subject_{.operation = operation, .bytes = bytes, .algorithm = algorithm},
      start_(bytes > kBriefBytes || recorder.keeps_all() ? TraceClock::now() : TraceEvent::kNotTimed) {}

ProcessGroup::Impl::Recorded::~Recorded() {
  if (!over_) end(TraceEvent::State::Done);
}

Deadline ProcessGroup::Impl::Recorded::deadline() {
  begin();
  if (start_ == TraceEvent::kNotTimed) recorder_.waits(ticket_, subject_, start_ = TraceClock::now());
  return Deadline(start_ + timeout_);
}

void ProcessGroup::Impl::Recorded::end(TraceEvent::State state) {
  over_ = true;
  begin();
  recorder_.end(ticket_, subject_, start_, state);
}

std::string ProcessGroup::Impl::recent_operations() const {
  std::string text;
  for (const TraceEvent& event : recorder_.latest()) text += event.to_string(TraceClock::now()) + "\n";
  return text;
}

void ProcessGroup::Impl::log_recent_operations() const {
  const auto latest = recorder_.latest();
  const auto now = TraceClock::now();
  for (const TraceEvent& event : latest) log(LogLevel::Debug, monitor_.prefix() + event.to_string(now));
  std::string text;
  for (std::size_t i = latest.size() - std::min(latest.size(), kOperationsInLog); i < latest.size(); ++i)
    text += (text.empty() ? "" : "; ") + latest[i].to_string(now);
  if (!text.empty()) log(LogLevel::Info, monitor_.prefix() + "latest operations, oldest first: " + text);
}

/// " (before: barrier seq 16, all_reduce seq 17 (...))", or nothing if `failed` was the first.
std::string ProcessGroup::Impl::operations_before(const std::string& failed) const {
  std::vector<std::string> names;
  for (const TraceEvent& event : recorder_.latest(kOperationsInText + 1)) names.push_back(event.operation.to_string());
  if (!names.empty() && failed.starts_with(names.back())) names.pop_back();
  std::string text;
  for (std::size_t i = names.size() - std::min(names.size(), kOperationsInText); i < names.size(); ++i)
    text += (text.empty() ? " (before: " : ", ") + names[i];
  return text.empty() ? text : text + ")";
}

/// Rank 0 answers each rank in turn with its own time; a rank takes the answer that came back fastest.
ClockOffset ProcessGroup::Impl::measure_clock() {
  ClockOffset offset;
  std::int64_t time[] = {0};
  const Buffer data = buffer(std::span<std::int64_t>(time));
  const Fingerprint operation = message(OpKind::Recv, data, kTraceTag);
  return guarded(operation, [&](Caller& caller) {
    for (int peer = 1; rank() == 0 && peer < world_size(); ++peer) {
      for (int round = 0; round < kRounds; ++round) {
        point_to_point_.recv(data, peer, kTraceTag, caller);
        time[0] = nanoseconds(TraceClock::now());
        point_to_point_.send(data, peer, kTraceTag, caller);
      }
    }
    std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
    for (int round = 0; rank() != 0 && round < kRounds; ++round) {
      const std::int64_t asked = nanoseconds(TraceClock::now());
      point_to_point_.send(data, 0, kTraceTag, caller);
      point_to_point_.recv(data, 0, kTraceTag, caller);
      const std::int64_t answered = nanoseconds(TraceClock::now());
      if (answered - asked >= fastest) continue;
      fastest = answered - asked;
      offset.to_rank_0 = std::chrono::nanoseconds(time[0] - (asked + fastest / 2));
      offset.uncertainty = std::chrono::nanoseconds(fastest / 2);
    }
    return offset;
  });
}

void ProcessGroup::Impl::collect_trace() {
  const TraceLog::Snapshot done = trace_log_->snapshot();  // without what follows
  const ClockOffset offset = measure_clock();
  std::int64_t first[] = {std::numeric_limits<std::int64_t>::max()};
  for (const TraceLog::Entry& entry : done.entries)
    first[0] = std::min(first[0], nanoseconds(entry.event.start) + offset.to_rank_0.count());
  run(prepare({.op = OpKind::AllReduce, .output = {first, 1, DType::Int64}, .reduction = ReduceOp::Min}));
  const TraceClock::time_point zero{std::chrono::nanoseconds(first[0])};

  std::string own = trace_events(done, rank(), offset, zero);
  const std::vector<std::uint64_t> length = {own.size()};
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(world_size()));
  run(prepare(
      {.op = OpKind::AllGather, .input = const_buffer(std::span(length)), .output = buffer(std::span(lengths))}));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string all(rank() == 0 ? std::accumulate(counts.begin(), counts.end(), std::size_t{0}) : 0, ' ');
  run(prepare({.op = OpKind::GatherV,
               .input = {own.data(), own.size(), DType::UInt8},
               .output = {all.data(), all.size(), DType::UInt8},
               .counts = counts}));
  if (rank() != 0) return;
  std::vector<std::string> parts;
  for (std::size_t at = 0; const std::size_t count : counts) {
    parts.push_back(all.substr(at, count));
    at += count;
  }
  try {
    write_trace_file(options_.trace_file, parts);
    log(LogLevel::Info, monitor_.prefix() + "the trace of all ranks is in '" + options_.trace_file + "'");
  } catch (const Error& error) {
    log(LogLevel::Error, monitor_.prefix() + error.what());  // the work itself is done: no reason to fail
  }
}

void ProcessGroup::Impl::leave_own_trace() noexcept {
  const std::string path = options_.trace_file + ".rank" + std::to_string(rank());
  try {
    const TraceLog::Snapshot done = trace_log_->snapshot();
    const auto zero = done.entries.empty() ? TraceClock::now() : done.entries.front().event.start;
    write_trace_file(path, std::vector{trace_events(done, rank(), {}, zero)});
    log(LogLevel::Warn,
        monitor_.prefix() + "the group failed; this rank's trace, by its own clock, is in '" + path + "'");
  } catch (const std::exception& error) {
    log(LogLevel::Warn, monitor_.prefix() + error.what());
  }
}

}  // namespace tutti::comm
