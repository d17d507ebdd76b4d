// WorkQueue: collectives of one group, run one after the other in the order they were submitted.
//
// There is no thread while everything is synchronous: run() on an empty queue calls the task on the caller's thread.
// The first submit() starts a helper thread; a thread that waits for a queued task runs the tasks before it that the
// helper has not taken yet. The helper ends when the queue has been empty for a while and is started again when needed.
// Thread-safety: all methods may be called from any thread, run() and submit() by one at a time.
#pragma once

#include <tutti/comm/work.h>

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

  /// The caller's task runs at once, if none runs and none is queued: until the end of this object's life.
  class Turn {
   public:
    explicit Turn(WorkQueue& queue) : queue_(queue), is_ours_(queue.enter()) {}
    ~Turn() {
      if (is_ours_) queue_.leave();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool is_ours() const { return is_ours_; }

   private:
    WorkQueue& queue_;
    const bool is_ours_;
  };

  bool enter();  // false: it has to be queued
  void leave();
  bool run_next(std::unique_lock<std::mutex>& lock);  // false if another task is running or none is queued
  void call_back(const std::vector<std::function<void()>>& callbacks, std::unique_lock<std::mutex>& lock) noexcept;
  void help();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> queue_;  // front = next
  bool running_ = false;                      // a task is running, on whichever thread
  bool stopping_ = false;
  int awaiting_end_ = 0;  // threads in let_running_end()
  int calling_back_ = 0;  // threads that call a completed task's callbacks
  bool helper_alive_ = false;
  std::thread helper_;
};

}  // namespace tutti::comm
