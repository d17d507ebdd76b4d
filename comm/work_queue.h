// WorkQueue: collectives of one group, run one after the other in the order they were submitted.
//
// There is no thread while everything is synchronous: a caller that finds the queue empty runs its task itself (Turn).
// The first submit() starts a helper thread; a thread that waits for a queued task runs the tasks before it that the
// helper has not taken yet. The helper ends when the queue has been empty for a while and is started again when needed.
// Thread-safety: all methods may be called from any thread, Turn and submit() by one at a time.
#pragma once

#include <tutti/comm/base/completion.h>
#include <tutti/comm/work.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tutti::comm {

class WorkQueue {
 public:
  using Task = std::function<void()>;

  WorkQueue() = default;
  ~WorkQueue();  // runs what is queued (a poisoned group's tasks fail at once), then joins the helper
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Taken if no task runs and none is queued: then the caller may run its own on its thread, and the queue waits until
  /// the end of this object's life. Else the task is to be submitted.
  class Turn {
   public:
    explicit Turn(WorkQueue& queue) : queue_(queue), taken_(queue.enter()) {}
    ~Turn() {
      if (taken_) queue_.leave();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool taken() const { return taken_; }

   private:
    WorkQueue& queue_;
    const bool taken_;
  };

  Work submit(Task task);

  /// Returns when no task is running. What is queued may start meanwhile; not from within a task.
  void let_running_end();

 private:
  struct Entry;  // one queued task

  bool enter();
  void leave();
  bool run_next(std::unique_lock<std::mutex>& lock);  // false if another task is running or none is queued
  void call_back(const Completion::Callbacks& callbacks, std::unique_lock<std::mutex>& lock) noexcept;
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
