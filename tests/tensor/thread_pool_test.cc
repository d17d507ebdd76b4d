#include <gtest/gtest.h>
#include <tutti/tensor/thread_pool.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace tutti::tensor::test {
namespace {

// Restores one thread, so that no test depends on another.
class ThreadPool : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(1); }
};

int threads_of_this_process() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}

/// The kernel wakes who joins a thread before it has counted the thread out.
void expect_threads(int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_of_this_process() != count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(threads_of_this_process(), count);
}

/// Joined and counted out.
void run_a_thread() {
  pid_t thread = 0;
  std::thread([&thread] { thread = ::gettid(); }).join();
  while (std::filesystem::exists("/proc/self/task/" + std::to_string(thread))) std::this_thread::yield();
}

void expect_covered_once(std::int64_t count, std::int64_t grain) {
  std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  for (const std::atomic<int>& hit : hits) ASSERT_EQ(hit.load(), 1) << count << " by " << grain;
}

TEST_F(ThreadPool, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (const std::int64_t count : {0, 1, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) expect_covered_once(count, grain);
    }
  }
}

// What a thread has written in one loop it finds in its own cache in the next. Nobody takes another's part here, as all
// parts wait for each other.
TEST_F(ThreadPool, AThreadHasTheSamePartInEveryLoop) {
  constexpr std::int64_t kThreads = 3;
  set_num_threads(kThreads);
  std::vector<std::thread::id> first;
  for (int loop = 0; loop < 200; ++loop) {
    std::vector<std::thread::id> by_part(kThreads);
    std::atomic<int> begun{0};
    parallel_for(kThreads, 1, [&](std::int64_t begin, std::int64_t end) {
      ASSERT_EQ(end, begin + 1);
      by_part[static_cast<std::size_t>(begin)] = std::this_thread::get_id();
      ++begun;
      while (begun < kThreads) std::this_thread::yield();
    });
    if (first.empty()) first = by_part;
    ASSERT_EQ(by_part, first) << "loop " << loop;
    ASSERT_EQ(by_part[0], std::this_thread::get_id());
  }
}

TEST_F(ThreadPool, OneThreadMeansNoExtraThread) {
  run_a_thread();  // a sanitizer starts a thread of its own with the first one
  set_num_threads(1);
  const int alone = threads_of_this_process();
  set_num_threads(3);
  expect_threads(alone + 2);
  set_num_threads(1);
  expect_threads(alone);
}

TEST_F(ThreadPool, RethrowsAndStaysUsable) {
  set_num_threads(3);
  EXPECT_THROW(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("part failed"); }),
               std::runtime_error);
  expect_covered_once(100, 1);
}

TEST_F(ThreadPool, NestedAndConcurrentLoopsRun) {
  set_num_threads(2);
  std::atomic<int> total{0};
  parallel_for(4, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(10, 1, [&](std::int64_t b, std::int64_t e) { total += static_cast<int>(e - b); });
    }
  });
  EXPECT_EQ(total.load(), 40);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([] {
      for (int i = 0; i < 200; ++i) expect_covered_once(50, 1);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(ThreadPool, SizeChangesWhileLoopsRun) {
  std::thread looper([] {
    for (int i = 0; i < 300; ++i) expect_covered_once(50, 1);
  });
  for (int i = 0; i < 30; ++i) set_num_threads(1 + i % 4);
  looper.join();
  EXPECT_THROW(set_num_threads(0), std::invalid_argument);
  EXPECT_THROW(set_num_threads(100000), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::tensor::test
