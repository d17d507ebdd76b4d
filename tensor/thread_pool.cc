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

/// How long a thread looks for the next loop, or for the end of one, before it sleeps: at first for itself alone, then
/// whenever no other thread wants the processor. A step of a model is a row of loops with short pieces between them;
/// waking a thread costs 5 to 50 us, and that before every loop. A virtual machine's processor that has nothing to do
/// may come back on another core, far from the caches that it had filled.
constexpr std::chrono::microseconds kAlone{50};
constexpr std::chrono::microseconds kPatience{2'000};

/// Looks until `is_true` or until patience is over. Returns what it saw last.
template <typename Condition>
bool spin_until(const Condition& is_true) {
  if (is_true()) return true;
  const auto start = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration waited{};
  do {
    if (waited > kAlone) std::this_thread::yield();
    for (int i = 0; i < 32; ++i) {
      if (is_true()) return true;
      pause_processor();
    }
    waited = std::chrono::steady_clock::now() - start;
  } while (waited < kPatience);
  return is_true();
}

// One loop at a time. Every thread has a share of the range, the same one in loops over the same range, so that what it
// writes in one loop it finds in its own cache in the next. Who is done with its share takes parts of the others'.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t threads) : shares_(threads) {
    workers_.reserve(threads - 1);
    for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
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

  /// `grains` units of `grain`, the last of which may end at `count` already.
  void run(std::int64_t count, std::int64_t grain, std::int64_t grains, RangeFunction body) {
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      const auto threads = static_cast<std::int64_t>(shares_.size());
      grain_ = grain;
      for (std::int64_t i = 0; i < threads; ++i) {
        Share& share = shares_[static_cast<std::size_t>(i)];
        share.next.store(grains * i / threads * grain, std::memory_order_relaxed);
        share.end = std::min(count, grains * (i + 1) / threads * grain);
      }
      error_ = nullptr;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    work(0, body);
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
  // What is left of a thread's share of the range.
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  // A part is what is left of the share, divided by this: long parts first, and at the end short ones, which others can
  // take when a thread is slow.
  static constexpr std::int64_t kLeftByPart = 4;

  void serve(std::size_t self) {
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
      ++active_;
      lock.unlock();
      work(self, body);
      lock.lock();
      if (--active_ == 0) idle_.notify_one();
    }
  }

  void work(std::size_t self, RangeFunction body) {
    try {
      for (std::size_t i = 0; i < shares_.size(); ++i) finish(shares_[(self + i) % shares_.size()], body);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      for (Share& share : shares_) share.next.store(share.end, std::memory_order_relaxed);
    }
  }

  void finish(Share& share, const RangeFunction& body) {
    std::int64_t begin = share.next.load(std::memory_order_relaxed);
    while (begin < share.end) {
      const std::int64_t part = std::max<std::int64_t>(1, (share.end - begin) / grain_ / kLeftByPart) * grain_;
      const std::int64_t end = std::min(share.end, begin + part);
      if (!share.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      body(begin, end);
      begin = share.next.load(std::memory_order_relaxed);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::thread> workers_;
  const RangeFunction* body_ = nullptr;
  std::vector<Share> shares_;  // by thread, the caller's first; set while no thread is in a loop
  std::int64_t grain_ = 1;     // likewise
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
    if (count > 1) process.pool = std::make_unique<ThreadPool>(static_cast<std::size_t>(count));
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
  process.pool->run(count, grain, (count + grain - 1) / grain, body);
}

}  // namespace tutti::tensor
