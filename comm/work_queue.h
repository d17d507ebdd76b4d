// WorkQueue: collectives of one group, run one after the other in the order they were submitted.
//
// There is no thread while everything is synchronous: run() on an empty queue calls the task on the caller's thread,
// and takes no lock as long as nobody else is there. The first submit() starts a helper thread; whoever waits for a
// queued task runs what stands before it if the helper has not taken it yet. The helper ends when the queue has been
// empty for a while and is started again when needed. Thread-safety: all methods may be called from any thread, run()
// and submit() by one at a time.
#pragma once

#include <tutti/comm/base/far_fence.h>
#include <tutti/comm/work.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::comm {

class WorkQueue {
 public:
  using Task = std::function<void()>;

  WorkQueue() = default;
  ~WorkQueue();  // runs what is queued (a poisoned group's tasks fail at once), then joins the helper
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Runs `task` after everything queued so far, and returns when it is done. Throws what it throws.
  template <typename F>
  void run(const F& task) {
    if (const Turn turn(*this); turn.is_ours()) return task();
    submit(task).wait();
  }

  Work submit(Task task);

  /// Returns when no task is running. What is queued may start meanwhile; not from within a task.
  void let_running_end();

 private:
  struct Entry;
  enum class Way { Alone, Locked, Queued };  // of a task that is to run at once

  /// The caller's task runs at once, if none runs and none is queued: until the end of this object's life.
  class Turn {
   public:
    explicit Turn(WorkQueue& queue) : queue_(queue), way_(queue.enter()) {}
    ~Turn() { queue_.leave(way_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool is_ours() const { return way_ != Way::Queued; }

   private:
    WorkQueue& queue_;
    const Way way_;
  };

  Way enter() {
    if (!others_.load(std::memory_order_acquire)) {
      alone_.store(true, std::memory_order_relaxed);
      fences_.near();
      if (!others_.load(std::memory_order_acquire)) return Way::Alone;
    }
    return enter_locked();
  }
  Way enter_locked();
  void leave(Way way) {
    if (way == Way::Alone) {
      alone_.store(false, std::memory_order_release);
      fences_.near();
      if (!others_.load(std::memory_order_relaxed)) return;
    }
    if (way != Way::Queued) leave_locked(way);
  }
  void leave_locked(Way way);

  // With mutex_ held.
  bool busy() const { return running_ || alone_.load(std::memory_order_acquire); }  // a task is running
  void come();  // before busy() is asked, or something is left here for others to see
  void part();  // afterwards: who comes next may be alone
  void tell();  // that nothing is running, if somebody waits for it

  bool run_next(std::unique_lock<std::mutex>& lock);  // false if somebody else is running or nothing is queued
  void call_back(const std::vector<std::function<void()>>& callbacks, std::unique_lock<std::mutex>& lock) noexcept;
  void help();

  // The caller of run() who finds nobody says so in alone_, and looks again; the others say in others_ that they are
  // there, and then look whether he is. One of the two sees the other.
  std::atomic<bool> alone_{false};   // a task is running that needed no lock
  std::atomic<bool> others_{false};  // written with mutex_ held
  FencePair fences_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> queue_;  // front = next
  bool running_ = false;                      // a task is running that took mutex_, on whichever thread
  bool stopping_ = false;
  int awaiting_end_ = 0;  // threads in let_running_end()
  int calling_back_ = 0;  // threads that tell of a completed task
  bool helper_alive_ = false;
  std::thread helper_;
};

}  // namespace tutti::comm
