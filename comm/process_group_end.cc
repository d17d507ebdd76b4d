// How a group fails and ends, and what it then reports of its operations: in texts and in the trace file.
#include <tutti/comm/base/log.h>
#include <tutti/comm/process_group_impl.h>

#include <limits>
#include <numeric>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kGoodbyeLimit(5000);
constexpr int kClockRounds = 16;
constexpr std::size_t kOperationsInText = 2;  // of an error
constexpr std::size_t kOperationsInLog = 5;   // at level Info; all of them at level Debug

std::int64_t nanoseconds(TraceClock::time_point time) { return time.time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

void ProcessGroup::Impl::shutdown() {
  if (writes_trace_ && !closed_) collect_trace();
  const Call goodbye = prepare({.op = OpKind::Shutdown});
  point_to_point_.drain(goodbye.fingerprint);
  run(goodbye);
  closed_ = true;
  log_recent_operations();
  transport_->close();
}

void ProcessGroup::Impl::abort(const std::string& reason) {
  if (!closed_) fail_from_outside(Error(ErrorCode::PeerLost, reason), "abort");
}

void ProcessGroup::Impl::leave() noexcept {
  if (failed_.load(std::memory_order_acquire) && writes_trace_) leave_own_trace();
  if (closed_ || failed_.load(std::memory_order_acquire) || (world_size() == 1 && !writes_trace_)) return;
  try {
    if (std::uncaught_exceptions() > 0) return abort("its program failed and left the group");
    options_.timeout = std::min(options_.timeout, kGoodbyeLimit);
    shutdown();
  } catch (const std::exception& error) {
    log(LogLevel::Warn, error.what());
  }
}

void ProcessGroup::Impl::record_failure(const Error& error, const std::string& operation) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) return;
  const std::string local = monitor_.prefix() + operation + ": " + error.what() + operations_before(operation);
  log_recent_operations();
  const bool second_hand = error.code() == ErrorCode::Aborted;
  const std::string cause = second_hand ? error.what() : monitor_.report(local);
  failure_ = cause == local ? std::make_exception_ptr(Error(error.code(), local))
                            : std::make_exception_ptr(Error(ErrorCode::Aborted, monitor_.prefix(), operation,
                                                            " was aborted; first cause: ", cause));
  failed_.store(true, std::memory_order_release);
  transport_->close();
}

void ProcessGroup::Impl::fail_from_outside(const Error& error, const std::string& operation) {
  record_failure(error, operation);
  queue_.let_running_end();
  point_to_point_.fail(failure());
}

std::exception_ptr ProcessGroup::Impl::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void ProcessGroup::Impl::rethrow_failure() const { std::rethrow_exception(failure()); }

std::string ProcessGroup::Impl::recent_operations() const {
  std::string text;
  for (const TraceEvent& event : recorder_.latest()) text += event.to_string(TraceClock::now()) + "\n";
  return text;
}

void ProcessGroup::Impl::log_recent_operations() const {
  const auto latest = recorder_.latest();
  const auto now = TraceClock::now();
  for (const TraceEvent& event : latest) log(LogLevel::Debug, monitor_.prefix(), event.to_string(now));
  std::string text;
  for (std::size_t i = latest.size() - std::min(latest.size(), kOperationsInLog); i < latest.size(); ++i)
    text += (text.empty() ? "" : "; ") + latest[i].to_string(now);
  if (!text.empty()) log(LogLevel::Info, monitor_.prefix(), "latest operations, oldest first: ", text);
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

/// Rank 0 reads its clock after all ranks have looked at theirs (the barrier), and they look again when they know the
/// time (the broadcast). The round that took the least time is the most exact one.
ClockOffset ProcessGroup::Impl::measure_clock() {
  ClockOffset offset{.uncertainty = std::chrono::nanoseconds::max()};
  for (int round = 0; round < kClockRounds; ++round) {
    const TraceClock::time_point asked = TraceClock::now();
    run(prepare({.op = OpKind::Barrier}));
    std::int64_t time[] = {nanoseconds(TraceClock::now())};
    run(prepare({.op = OpKind::Broadcast, .output = {time, 1, DType::Int64}}));
    const std::chrono::nanoseconds half = (TraceClock::now() - asked) / 2;
    if (half < offset.uncertainty)
      offset = {.to_rank_0 = std::chrono::nanoseconds(time[0] - nanoseconds(asked + half)), .uncertainty = half};
  }
  return rank() == 0 ? ClockOffset() : offset;
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
  run(prepare({.op = OpKind::AllGather, .input = std::span(length), .output = std::span(lengths)}));
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
    log(LogLevel::Info, monitor_.prefix(), "the trace of all ranks is in '", options_.trace_file, "'");
  } catch (const Error& error) {
    log(LogLevel::Error, monitor_.prefix(), error.what());  // the work itself is done: no reason to fail
  }
}

void ProcessGroup::Impl::leave_own_trace() noexcept {
  const std::string path = options_.trace_file + ".rank" + std::to_string(rank());
  try {
    const TraceLog::Snapshot done = trace_log_->snapshot();
    const auto zero = done.entries.empty() ? TraceClock::now() : done.entries.front().event.start;
    write_trace_file(path, std::vector{trace_events(done, rank(), {}, zero)});
    log(LogLevel::Warn, monitor_.prefix(), "the group failed; this rank's trace, by its own clock, is in '", path, "'");
  } catch (const std::exception& error) {
    log(LogLevel::Warn, monitor_.prefix(), error.what());
  }
}

}  // namespace tutti::comm
