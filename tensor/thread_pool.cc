#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tutti::tensor {
namespace {

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// How long a thread looks for the next loop, or for the end of one, before it sleeps. A step of a model is a row of
/// loops with short pieces between them; waking a thread costs 5 to 50 us, and that before every loop.
constexpr std::chrono::microseconds kPatience{50};

/// Looks until `is_true` or until patience is over. Returns what it saw last.
template <typename Condition>
bool spin_until(const Condition& is_true) {
  if (is_true()) return true;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < 32; ++i) {
      if (is_true()) return true;
      pause_processor();
    }
  } while (std::chrono::steady_clock::now() < end);
  return is_true();
}

// One loop at a time. Parts are handed out by a counter; which thread takes which part is left to chance, what a part
// computes is not.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
  }

  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(std::int64_t count, std::int64_t part, RangeFunction body) {
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      count_ = count;
      part_ = part;
      next_.store(0, std::memory_order_relaxed);
      error_ = nullptr;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    work(body, count, part);
    std::unique_lock lock(mutex_);
    body_ = nullptr;  // a worker that wakes from now on finds nothing to do
    if (active_ > 0) {
      lock.unlock();
      spin_until([this] { return active_ == 0; });
      lock.lock();
      idle_.wait(lock, [this] { return active_ == 0; });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void serve() {
    std::uint64_t seen = 0;
    while (true) {
      spin_until([&] { return generation_.load(std::memory_order_relaxed) != seen; });
      std::unique_lock lock(mutex_);
      if (generation_ != seen && body_ == nullptr && !stopping_) {  // came too late for that loop: look for the next
        seen = generation_;
        continue;
      }
      wake_.wait(lock, [&] { return stopping_ || (generation_ != seen && body_ != nullptr); });
      if (stopping_) return;
      seen = generation_;
      const RangeFunction body = *body_;
      const std::int64_t count = count_;
      const std::int64_t part = part_;
      ++active_;
      lock.unlock();
      work(body, count, part);
      lock.lock();
      if (--active_ == 0) idle_.notify_one();
    }
  }

  void work(RangeFunction body, std::int64_t count, std::int64_t part) {
    try {
      while (true) {
        const std::int64_t begin = next_.fetch_add(part, std::memory_order_relaxed);
        if (begin >= count) return;
        body(begin, std::min(count, begin + part));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(count, std::memory_order_relaxed);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::thread> workers_;
  const RangeFunction* body_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t part_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::exception_ptr error_;
  std::atomic<std::uint64_t> generation_{0};  // of loops; changed under the mutex, looked at without
  std::atomic<int> active_{0};                // workers in a loop; likewise
  bool stopping_ = false;
};

// The process's pool: threads are a resource of the process, like its memory. Destroyed (and joined) at exit.
struct ProcessPool {
  std::unique_ptr<ThreadPool> pool;
  std::atomic<int> threads{1};
  std::atomic<bool> busy{false};
};

ProcessPool& process_pool() {
  static ProcessPool pool;
  return pool;
}

// Exclusive use of the pool, if it is free at once. An atomic flag and not try_lock: the same thread may ask again.
class Claim {
 public:
  explicit Claim(ProcessPool& pool) : pool_(pool), held_(!pool.busy.exchange(true, std::memory_order_acquire)) {}
  ~Claim() {
    if (!held_) return;
    pool_.busy.store(false, std::memory_order_release);
    pool_.busy.notify_all();
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  bool held() const { return held_; }

 private:
  ProcessPool& pool_;
  bool held_;
};

}  // namespace

void set_num_threads(int count) {
  if (count < 1 || count > 1024) {
    throw std::invalid_argument("set_num_threads(" + std::to_string(count) + "): the count must be 1 to 1024");
  }
  ProcessPool& process = process_pool();
  while (true) {
    const Claim claim(process);
    if (!claim.held()) {
      process.busy.wait(true, std::memory_order_acquire);
      continue;
    }
    if (count == process.threads.load(std::memory_order_relaxed)) return;
    process.pool.reset();
    process.threads.store(1, std::memory_order_relaxed);
    if (count > 1) process.pool = std::make_unique<ThreadPool>(count);
    process.threads.store(count, std::memory_order_relaxed);
    return;
  }
}

int num_threads() { return process_pool().threads.load(std::memory_order_relaxed); }

void parallel_for(std::int64_t count, std::int64_t grain, RangeFunction body) {
  if (count <= 0) return;
  const int threads = num_threads();
  if (threads == 1 || count <= grain) return body(0, count);
  ProcessPool& process = process_pool();
  const Claim claim(process);
  if (!claim.held() || !process.pool) return body(0, count);
  // Whole grains, about two parts a thread: enough to even out, few enough to keep parts long.
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t parts = std::min<std::int64_t>(grains, 2 * threads);
  process.pool->run(count, (grains + parts - 1) / parts * grain, body);
}

}  // namespace tutti::tensor
