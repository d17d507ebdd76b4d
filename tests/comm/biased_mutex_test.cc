// The mutex that its frequent user enters without a locked instruction: nobody is ever inside with somebody else.
#include <gtest/gtest.h>
#include <tutti/comm/base/biased_mutex.h>
#include <tutti/tests/support/watchdog.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tutti::comm {
namespace {

/// Notices when two threads are inside at once.
class Guarded {
 public:
  void add() {
    begun_.store(begun_.load(kRelaxed) + 1, kRelaxed);
    __builtin_ia32_pause();
    ended_.store(ended_.load(kRelaxed) + 1, kRelaxed);
  }
  /// Stays for a while; false: somebody else was there.
  bool stay() const {
    const long ended = ended_.load(kRelaxed);
    for (int i = 0; i < 20; ++i) __builtin_ia32_pause();
    return begun_.load(kRelaxed) == ended;
  }
  long sum() const { return ended_.load(kRelaxed); }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  std::atomic<long> begun_{0}, ended_{0};
};

void enter_briefly(BiasedMutex& mutex, Guarded& guarded, int times) {
  for (int i = 0; i < times; ++i) {
    const BiasedMutex::Brief brief(mutex);
    guarded.add();
  }
}

/// A line that both threads write, so that what is written behind it leaves the processor late.
struct Contended {
  alignas(128) std::atomic<int> value{0};
  void write() { value.store(1, std::memory_order_relaxed); }
};

TEST(BiasedMutex, KeepsOthersOutWhoComeNowAndThen) {
  const test::Watchdog watchdog;
  constexpr int kVisits = 2'000;
  BiasedMutex mutex;
  Guarded guarded;
  Contended contended;
  std::atomic<long> entered{0};
  std::atomic<bool> over{false};
  int met = 0;
  std::thread other([&] {
    for (int visit = 0; visit < kVisits; ++visit) {
      const long calm = entered + 2 * BiasedMutex::kCalm;  // then the frequent one is alone again
      while (entered < calm) contended.write();
      const std::lock_guard lock(mutex);
      met += guarded.stay() ? 0 : 1;
    }
    over = true;
  });
  while (!over) {
    contended.write();
    enter_briefly(mutex, guarded, 1);
    entered.store(entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  other.join();
  EXPECT_EQ(met, 0);
  EXPECT_EQ(guarded.sum(), entered);
}

TEST(BiasedMutex, IsAMutexToManyWhoComeAllTheTime) {
  const test::Watchdog watchdog;
  constexpr int kTimes = 20'000;
  BiasedMutex mutex;
  Guarded guarded;
  const auto visit = [&] {
    for (int i = 0; i < kTimes; ++i) {
      const std::lock_guard lock(mutex);
      guarded.add();
    }
  };
  std::thread first(visit), second(visit);
  enter_briefly(mutex, guarded, kTimes);
  first.join();
  second.join();
  EXPECT_EQ(guarded.sum(), 3L * kTimes);
}

TEST(BiasedMutex, WhoWaitsForAConditionIsTold) {
  const test::Watchdog watchdog;
  BiasedMutex mutex;
  std::condition_variable_any changed;
  Guarded guarded;
  bool told = false;
  std::thread sleeper([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return told; });
    guarded.add();
  });
  enter_briefly(mutex, guarded, 3 * BiasedMutex::kCalm);
  {
    const BiasedMutex::Brief brief(mutex);
    told = true;
  }
  changed.notify_all();
  sleeper.join();
  EXPECT_EQ(guarded.sum(), 3 * BiasedMutex::kCalm + 1);
}

}  // namespace
}  // namespace tutti::comm
