// Work: a handle on one submitted operation.
//
// Ownership: the handle is cheap to copy and shares the operation's state with the group; dropping it neither blocks
// nor cancels. The buffers of the operation belong to the caller and must live until the operation is complete.
// Thread-safety: any thread may call any method.
//
// Waiting is optional: operations go on by themselves, and on_completion() tells a program with an event loop of its
// own when to look:
//
//   work.on_completion([&io, f] { asio::post(io, f); });   // Asio
//   work.on_completion([fd] { ::eventfd_write(fd, 1); });  // epoll
//
// (tools/examples/embedding/shared_loop is a whole program.)
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

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
  /// As Work::on_completion().
  virtual void on_completion(std::function<void()> callback) = 0;
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

  /// Calls `callback` once when the operation is complete, after success and after failure (exception() tells): at once
  /// if it is complete already, else on the thread that completes it, which is one of the group's own or one that uses
  /// the group or waits. Never blocks. Those given before are called in the order in which they were given.
  ///
  /// The callback passes the event on and returns. The methods of this Work do not block in it, but it must not wait
  /// for anything else, use or destroy the group, or throw (that ends the program). The group's destructor returns
  /// after the last callback; a group that is destroyed or fails completes its operations, so that each is called.
  void on_completion(std::function<void()> callback) const;

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace tutti::comm
