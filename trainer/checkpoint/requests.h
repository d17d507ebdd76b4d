// What a rank is asked from outside while it trains: write a checkpoint now, or write one and end.
//
//   SignalRequests requests;
//   ... train(..., {.requests = &requests}) ...   // listens from its first step on
//
// SIGUSR1 asks for a checkpoint, SIGTERM for a checkpoint and the end.
// One rank that is asked is enough: the ranks agree at their next step (checkpointer.h). A second SIGTERM ends the
// process at once, as SIGTERM does without a handler; one that comes within a second of the first counts as the same,
// since a scheduler that signals all processes of a job and a launcher that passes its own signal on both reach us.
//
// Thread-safety: the questions may be asked by any thread and by signal handlers.
#pragma once

#include <signal.h>

#include <atomic>

namespace tutti::trainer {

class TrainRequests {
 public:
  virtual ~TrainRequests() = default;

  /// Training begins: from now on somebody looks.
  virtual void listen() {}

  void ask_checkpoint() noexcept { checkpoint_.store(true); }
  void ask_stop() noexcept { stop_.store(true); }

  bool checkpoint_asked() const noexcept { return checkpoint_.load(); }
  bool stop_asked() const noexcept { return stop_.load(); }

  /// A checkpoint has been taken: what was asked before is done.
  void checkpoint_taken() noexcept { checkpoint_.store(false); }

 private:
  std::atomic<bool> checkpoint_{false};
  std::atomic<bool> stop_{false};
};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes them");

/// Asks what SIGUSR1 and SIGTERM ask, from listen() until it dies; before and after, signals do what they did. A signal
/// that is ignored stays so. One per process at a time.
class SignalRequests : public TrainRequests {
 public:
  SignalRequests() = default;
  ~SignalRequests() override;
  SignalRequests(const SignalRequests&) = delete;
  SignalRequests& operator=(const SignalRequests&) = delete;

  void listen() override;

 private:
  bool listening_ = false;
  struct sigaction old_user_ {};
  struct sigaction old_term_ {};
};

}  // namespace tutti::trainer
