// The queue of a group's collectives: tasks run one at a time, at once where nobody else is there, and whoever waits
// for their end learns of it.
#include <gtest/gtest.h>
#include <tutti/comm/work_queue.h>
#include <tutti/tests/support/watchdog.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

using namespace std::chrono_literals;

/// Tasks that notice when two of them run at once.
class Tasks {
 public:
  void run_one() {
    EXPECT_FALSE(at_work_.exchange(true));
    ++begun_;
    ++sum_;  // not atomic: the queue is what keeps it whole
    ++ended_;
    EXPECT_TRUE(at_work_.exchange(false));
  }
  int begun() const { return begun_; }
  int ended() const { return ended_; }
  long sum() const { return sum_; }

 private:
  std::atomic<bool> at_work_{false};
  std::atomic<int> begun_{0}, ended_{0};
  long sum_ = 0;
};

template <typename F>
void run(WorkQueue& queue, const F& task) {
  if (const WorkQueue::Turn turn(queue); turn.taken()) return task();
  queue.submit(task).wait();
}

/// Longer than a helper idles.
auto a_while_from_now() { return std::chrono::steady_clock::now() + 300ms; }

TEST(WorkQueue, WhatIsSynchronousRunsOnTheCallersThread) {
  WorkQueue queue;
  std::thread::id ran_on;
  run(queue, [&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  queue.submit([] {}).wait();
  run(queue, [&] { ran_on = std::this_thread::get_id(); });  // a helper may be there
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(WorkQueue, ATaskThatThrowsEndsItsTurn) {
  WorkQueue queue;
  const auto fail = [] { throw std::runtime_error("no"); };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(run(queue, fail), std::runtime_error);
  EXPECT_THROW(queue.submit(fail).wait(), std::runtime_error);
  EXPECT_THROW(run(queue, fail), std::runtime_error);
  queue.let_running_end();
}

TEST(WorkQueue, TasksRunInTheirOrderAndOneAtATime) {
  WorkQueue queue;
  std::vector<int> order;
  std::vector<Work> works;
  for (int i = 0; i < 300; ++i) {
    if (i % 3 == 0) {
      run(queue, [&, i] { order.push_back(i); });
    } else {
      works.push_back(queue.submit([&, i] { order.push_back(i); }));
    }
  }
  for (Work& work : works) work.wait();
  ASSERT_EQ(order.size(), 300u);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

/// Who waits for the end of what is running meets tasks that take no lock: none of the two misses the other.
TEST(WorkQueue, TheEndOfWhatIsRunningIsToldToWhoWaitsForIt) {
  const test::Watchdog watchdog;
  WorkQueue queue;
  Tasks tasks;
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      const int begun = tasks.begun();
      queue.let_running_end();
      EXPECT_GE(tasks.ended(), begun);
    }
  });
  long expected = 0;
  for (const auto end = a_while_from_now(); std::chrono::steady_clock::now() < end; ++expected)
    run(queue, [&] { tasks.run_one(); });
  over = true;
  other.join();
  EXPECT_EQ(tasks.sum(), expected);
}

/// As a group does after its failure: what tasks use may be freed once those that did not know of it have ended.
TEST(WorkQueue, WhoLetsTheRunningEndMayFreeWhatTheyUse) {
  const test::Watchdog watchdog;
  WorkQueue queue;
  std::atomic<bool> over{false}, failed{false}, freed{false};
  std::thread other([&] {
    while (!over) {
      failed = true;
      queue.let_running_end();
      freed = true;
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(freed.load(std::memory_order_relaxed));
      freed = false;
      failed = false;
      for (int i = 0; i < 100 && !over; ++i) EXPECT_FALSE(freed.load(std::memory_order_relaxed));
    }
  });
  int used_freed = 0;
  for (const auto end = a_while_from_now(); std::chrono::steady_clock::now() < end;) {
    run(queue, [&] {
      if (failed) return;
      for (int i = 0; i < 20; ++i) used_freed += freed;
    });
  }
  over = true;
  other.join();
  EXPECT_EQ(used_freed, 0);
}

/// Also from the moment on when the helper has gone, and the caller is alone again.
TEST(WorkQueue, CallersAndHelpersComeAndGo) {
  const test::Watchdog watchdog;
  WorkQueue queue;
  Tasks tasks;
  long expected = 0;
  for (int round = 0; round < 3; ++round) {
    Work queued = queue.submit([&] { tasks.run_one(); });
    std::thread waits([&] { queued.wait(); });
    ++expected;
    for (const auto end = a_while_from_now(); std::chrono::steady_clock::now() < end; ++expected)
      run(queue, [&] { tasks.run_one(); });
    waits.join();
  }
  queue.let_running_end();
  EXPECT_EQ(tasks.sum(), expected);
}

/// While it runs one of several queued tasks, the helper waits without the lock.
TEST(WorkQueue, TheDestructorAndTheHelperShareWhatIsQueued) {
  const test::Watchdog watchdog;
  for (int round = 0; round < 50; ++round) {
    WorkQueue queue;
    for (int i = 0; i < 3; ++i) static_cast<void>(queue.submit([] { std::this_thread::sleep_for(1ms); }));
  }
}

}  // namespace
}  // namespace tutti::comm
