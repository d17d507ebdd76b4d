#include <tutti/comm/work_queue.h>

#include <chrono>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kHelperIdles(200);  // then its thread ends

}  // namespace

struct WorkQueue::Entry final : Completion {
  Task task;
  WorkQueue* queue = nullptr;

  void wait() override {
    if (is_completed()) return;
    // Not done, so the queue still exists: its destructor finishes every entry before it returns.
    {
      std::unique_lock lock(queue->mutex_);
      while (!is_completed() && queue->run_next(lock)) {
      }
    }
    await_completion();
  }
};

WorkQueue::~WorkQueue() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  while (run_next(lock)) {
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return !running_ && queue_.empty() && calling_back_ == 0; });
  lock.unlock();
  if (helper_.joinable()) helper_.join();
}

bool WorkQueue::enter() {
  const std::lock_guard lock(mutex_);
  if (running_ || !queue_.empty()) return false;
  return running_ = true;
}

void WorkQueue::leave() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (!queue_.empty() || stopping_ || awaiting_end_ > 0) changed_.notify_all();
}

Work WorkQueue::submit(Task task) {
  auto entry = std::make_shared<Entry>();
  entry->task = std::move(task);
  entry->queue = this;
  const std::lock_guard lock(mutex_);
  queue_.push_back(entry);
  if (helper_alive_) {
    changed_.notify_all();
  } else {
    if (helper_.joinable()) helper_.join();
    helper_alive_ = true;
    helper_ = std::thread([this] { help(); });
  }
  return Work(std::move(entry));
}

void WorkQueue::let_running_end() {
  std::unique_lock lock(mutex_);
  ++awaiting_end_;
  changed_.wait(lock, [&] { return !running_; });
  --awaiting_end_;
}

bool WorkQueue::run_next(std::unique_lock<std::mutex>& lock) {
  if (running_ || queue_.empty()) return false;
  const std::shared_ptr<Entry> entry = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    entry->task();
  } catch (...) {
    error = std::current_exception();
  }
  entry->task = nullptr;
  lock.lock();
  running_ = false;
  changed_.notify_all();
  if (const auto callbacks = entry->complete(std::move(error)); !callbacks.empty()) call_back(callbacks, lock);
  return true;
}

void WorkQueue::call_back(const Completion::Callbacks& callbacks, std::unique_lock<std::mutex>& lock) noexcept {
  ++calling_back_;
  lock.unlock();
  for (const auto& callback : callbacks) callback();
  lock.lock();
  --calling_back_;
  changed_.notify_all();
}

void WorkQueue::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (run_next(lock)) continue;
    const auto may_go_on = [&] { return !running_ && (stopping_ || !queue_.empty()); };
    const bool woken = changed_.wait_for(lock, kHelperIdles, may_go_on);
    if (queue_.empty() && (!woken || stopping_)) break;
  }
  helper_alive_ = false;
}

void Work::wait() {
  if (!state_) return;
  state_->wait();
  if (auto error = state_->exception()) std::rethrow_exception(error);
}

bool Work::wait_for(std::chrono::milliseconds timeout) {
  if (!state_) return true;
  if (!state_->wait_for(timeout)) return false;
  if (auto error = state_->exception()) std::rethrow_exception(error);
  return true;
}

bool Work::is_completed() const { return !state_ || state_->is_completed(); }
std::exception_ptr Work::exception() const { return state_ ? state_->exception() : nullptr; }
int Work::source_rank() const { return state_ ? state_->source_rank() : -1; }

void Work::on_completion(std::function<void()> callback) const {
  if (!state_) return callback();
  state_->on_completion(std::move(callback));
}

}  // namespace tutti::comm
