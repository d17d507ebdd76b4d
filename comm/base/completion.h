// Completion: the state behind a Work: whether its operation is complete, how it ended, and what is to be called then.
//
// It may outlive what completes it. Thread-safety: all methods may be called from any thread, complete() once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti::comm {

class Completion {
 public:
  using Callbacks = std::vector<std::function<void()>>;

  virtual ~Completion() = default;

  bool is_completed() const { return done_.load(std::memory_order_acquire); }
  /// Null while running and after success.
  std::exception_ptr exception() const { return is_completed() ? error_ : nullptr; }

  /// Blocks until complete; may run the operation on the calling thread.
  virtual void wait() = 0;
  /// The sender's rank of a completed receive; -1 for everything else.
  virtual int source_rank() const { return -1; }

  /// Blocks until complete or until `timeout` has passed. True = complete.
  bool wait_for(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return finished_.wait_for(lock, timeout, [&] { return is_completed(); });
  }

  /// As Work::on_completion().
  void on_completion(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_completed()) return callbacks_.push_back(std::move(callback));
    }
    callback();
  }

  /// Returns the callbacks, to be called when no lock is held any more. The caller keeps this object meanwhile.
  [[nodiscard]] Callbacks complete(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
    finished_.notify_all();
    return std::move(callbacks_);
  }

 protected:
  /// Blocks until another thread has completed it.
  void await_completion() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return is_completed(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  std::exception_ptr error_;  // written before done_
  std::atomic<bool> done_{false};
  Callbacks callbacks_;
};

}  // namespace tutti::comm
