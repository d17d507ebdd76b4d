// Work: a handle on one submitted operation.
//
// Ownership: the handle is cheap to copy and shares the operation's state with the group; dropping it neither blocks
// nor cancels. The buffers of the operation belong to the caller and must live until the operation is complete.
// Thread-safety: any thread may call any method.
#pragma once

#include <chrono>
#include <exception>
#include <memory>

namespace tutti::comm {

/// What a group implements; users see Work.
class WorkState {
 public:
  virtual ~WorkState() = default;
  /// Blocks until complete; may run the operation on the calling thread.
  virtual void wait() = 0;
  /// Blocks until complete or until `timeout` has passed. True = complete.
  virtual bool wait_for(std::chrono::milliseconds timeout) = 0;
  virtual bool is_completed() const = 0;
  /// Null while running and after success.
  virtual std::exception_ptr exception() const = 0;
  /// The sender's rank of a completed receive; -1 for everything else.
  virtual int source_rank() const { return -1; }
};

class [[nodiscard]] Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  /// Blocks until the operation is complete; throws its error. Bounded by the operation's own deadline.
  void wait();

  /// True if complete within `timeout` (throws if it failed), false if it still runs; it then goes on running.
  bool wait_for(std::chrono::milliseconds timeout);

  /// Never blocks; true after success and after failure.
  bool is_completed() const { return !state_ || state_->is_completed(); }

  /// Null while running and after success.
  std::exception_ptr exception() const { return state_ ? state_->exception() : nullptr; }

  /// After a completed irecv: the rank that sent. -1 otherwise.
  int source_rank() const { return state_ ? state_->source_rank() : -1; }

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace tutti::comm
