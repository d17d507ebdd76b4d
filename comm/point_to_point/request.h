// One isend or irecv of PointToPoint; also the state behind its Work, which may outlive the engine. Internal.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/point_to_point/point_to_point.h>

#include <atomic>

namespace tutti::comm {

struct PointToPoint::Request final : WorkState {
  PointToPoint* engine = nullptr;
  bool is_send = false;
  Buffer data;                        // of a receive
  const void* source_data = nullptr;  // of a send
  int peer = -1;                      // -1: any
  Fingerprint fingerprint;
  Deadline deadline{Deadline::Clock::time_point{}};
  int source = -1;
  std::exception_ptr error;  // written before done
  std::atomic<bool> done{false};
  std::vector<Callback> callbacks;  // guarded by the engine's mutex

  bool is_completed() const override { return done.load(std::memory_order_acquire); }
  std::exception_ptr exception() const override { return is_completed() ? error : nullptr; }
  int source_rank() const override { return is_completed() ? source : -1; }

  void wait() override {
    if (!is_completed()) engine->drive(*this);
  }

  bool wait_for(std::chrono::milliseconds timeout) override {
    if (is_completed()) return true;
    std::unique_lock lock(engine->mutex_);
    ++engine->sleepers_;
    const bool completed = engine->changed_.wait_for(lock, timeout, [&] { return is_completed(); });
    --engine->sleepers_;
    return completed;
  }

  void on_completion(Callback callback) override {
    if (!is_completed()) {
      const std::lock_guard lock(engine->mutex_);
      if (!is_completed()) return callbacks.push_back(std::move(callback));
    }
    callback();
  }
};

/// Holds the engine's mutex. Callbacks of requests that finished under it are called when it is free again.
class PointToPoint::Hold {
 public:
  explicit Hold(PointToPoint& engine) : engine_(engine), lock_(engine.mutex_) {}
  ~Hold() {
    if (lock_) unlock();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void lock() { lock_.lock(); }
  void unlock() noexcept {
    const std::vector<Callback> due = std::exchange(engine_.due_, {});
    lock_.unlock();
    for (const Callback& callback : due) callback();
  }
  void tell() {
    if (engine_.due_.empty()) return;
    unlock();
    lock();
  }

 private:
  PointToPoint& engine_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace tutti::comm
