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

class Completion;  // base/completion.h: what a group implements

class [[nodiscard]] Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Completion> state) : state_(std::move(state)) {}

  /// Blocks until the operation is complete; throws its error. Bounded by the operation's own deadline.
  void wait();

  /// True if complete within `timeout` (throws if it failed), false if it still runs; it then goes on running.
  bool wait_for(std::chrono::milliseconds timeout);

  /// Never blocks; true after success and after failure.
  bool is_completed() const;

  /// Null while running and after success.
  std::exception_ptr exception() const;

  /// After a completed irecv: the rank that sent. -1 otherwise.
  int source_rank() const;

  /// Calls `callback` once when the operation is complete, after success and after failure (exception() tells): at once
  /// if it is complete already, else on the thread that completes it, which is one of the group's own or one that uses
  /// the group or waits. Never blocks. Those given before are called in the order in which they were given.
  ///
  /// The callback passes the event on and returns. The methods of this Work do not block in it, but it must not wait
  /// for anything else, use or destroy the group, or throw (that ends the program). The group's destructor returns
  /// after the last callback; a group that is destroyed or fails completes its operations, so that each is called.
  void on_completion(std::function<void()> callback) const;

 private:
  std::shared_ptr<Completion> state_;
};

}  // namespace tutti::comm
