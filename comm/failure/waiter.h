// Waiter: what a thread does while the operation it drives cannot go on.
//
// Poll a little, then yield, then block in the kernel; the longer the wait, the more it publishes and asks. Where ranks
// outnumber CPUs it yields after every poll, so that the rank it waits for can run. How long it polls depends on that
// alone. Thread-safety: one waiter belongs to one operation on one thread.
#pragma once

#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/transport/transport.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>

namespace tutti::comm {

class Waiter {
 public:
  Waiter(Transport& transport, FailureMonitor& monitor, const Fingerprint& operation, Deadline deadline,
         std::chrono::milliseconds report_after);

  /// The operation moved on.
  void progressed() { polls_ = 0; }

  /// Nothing to do just now. False: poll again at once. True: block().
  bool should_block();

  /// Blocks until something may have happened on `links`. `awaited` are the ranks that the operation waits for. Throws
  /// Timeout when the deadline has passed, and what FailureMonitor finds.
  void block(std::span<Link* const> links, std::span<const int> awaited);

  /// The same without links: `sleep` blocks for at most the time it is given.
  void block(const std::function<void(std::chrono::milliseconds)>& sleep, std::span<const int> awaited);

 private:
  using Clock = std::chrono::steady_clock;

  void look_around(std::span<const int> awaited);  // after each sleep
  void consult(Clock::duration waited, std::span<const int> awaited);
  [[noreturn]] void time_out(std::span<const int> awaited);

  Transport& transport_;
  FailureMonitor& monitor_;
  const Fingerprint& operation_;
  const Deadline deadline_;
  const std::chrono::milliseconds report_after_;
  const Clock::duration poll_alone_;
  const Clock::duration poll_for_;
  const unsigned free_polls_;
  unsigned polls_ = 0;              // since the last progress
  Clock::time_point start_;         // of this wait
  Clock::duration next_service_{};  // since start_
  Clock::time_point last_consulted_;
  bool reported_ = false;
  std::optional<FailureMonitor::Reports> reports_;  // taken shortly before the deadline
};

}  // namespace tutti::comm
