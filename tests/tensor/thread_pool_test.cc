#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tests/support/in_threads.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
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
  tutti::test::in_threads(3, [](int) {
    for (int i = 0; i < 200; ++i) expect_covered_once(50, 1);
  });
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

// The CPU's kernels: the number of threads changes no bit, nor do the other rows. The rest of the batch:
// batch_independence_test.cc.

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(1); }
};

// Everything that one recorded operation produces: the result and the gradients of its inputs.
using Results = std::vector<Tensor>;
using Operation = std::function<Variable(const std::vector<Variable>&)>;

Results run(const Operation& operation, const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input.clone(), true);
  Variable y = operation(leaves);
  y.backward(random_tensor(y.shape(), 5, y.data().dtype()));
  Results results{y.data()};
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void expect_same_bits_on_threads(const Operation& operation, const std::vector<Tensor>& inputs) {
  const Results alone = run(operation, inputs);
  for (const int count : {2, 5}) {
    const Threads threads(count);
    const Results together = run(operation, inputs);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      ASSERT_EQ(std::memcmp(together[i].raw(), alone[i].raw(), alone[i].nbytes()), 0)
          << "result " << i << " on " << count << " threads";
    }
  }
}

Variable normalise(const std::vector<Variable>& in, const BatchNormOptions& options) {
  const Shape& channels = in[1].shape();
  const DType type = in[0].data().dtype();
  return batch_norm(in[0], in[1], in[2], Tensor::zeros(channels, type), Tensor::full(channels, 1, type), options,
                    in.size() > 3 ? in[3] : Variable());
}

TEST(Kernels, ThreadsDoNotChangeABit) {
  const Tensor a = random_tensor({300, 700}, 1, DType::Float32);
  const Tensor w = random_tensor({210, 700}, 3, DType::Float32);
  const Tensor big = random_tensor({1, 400'000}, 4, DType::Float32);
  expect_same_bits_on_threads([](const auto& in) { return matmul(in[0], in[1]); },
                              {a, random_tensor({700, 210}, 2, DType::Float32)});
  expect_same_bits_on_threads([](const auto& in) { return linear(in[0], in[1], {}); }, {a, w});
  expect_same_bits_on_threads([](const auto& in) { return sum(in[0]); }, {big});
  expect_same_bits_on_threads([](const auto& in) { return scale(in[0], 0.3); }, {big});
}

TEST(ImageKernels, ThreadsDoNotChangeABit) {
  const Tensor x = random_tensor({13, 31, 29, 40}, 1, DType::Float32);
  const Tensor c = random_tensor({40}, 2, DType::Float32);
  const BatchNormOptions relu{.activation = Activation::Relu};
  expect_same_bits_on_threads([&](const auto& in) { return normalise(in, relu); }, {x, c, c});
  expect_same_bits_on_threads([&](const auto& in) { return normalise(in, relu); }, {x, c, c, x});
  expect_same_bits_on_threads(
      [](const auto& in) { return max_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return avg_pool2d(in[0], {.kernel = 3, .stride = 2}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return adaptive_avg_pool2d(in[0], 7); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return silu(in[0]); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return mean(in[0], {1, 2}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return mul_channels(in[0], in[1]); },
                              {x, random_tensor({13, 40}, 3, DType::Float32)});
  Tensor keys = Tensor::zeros({13}, DType::Int64);
  expect_same_bits_on_threads([&](const auto& in) { return dropout(in[0], 0.5, keys, 1); }, {x});
}

TEST(Conv2d, ThreadsDoNotChangeABit) {
  for (const std::int64_t groups : {1, 2, 36}) {
    const Tensor x = random_tensor({7, 9, 9, 36}, 15, DType::Float32);
    const Tensor w = random_tensor({72 / (groups == 36 ? 2 : 1), 36 / groups, 3, 3}, 16, DType::Float32);
    const Conv2dOptions options{.padding = 1, .groups = groups};
    expect_same_bits_on_threads([&](const auto& in) { return conv2d(in[0], in[1], {}, options); }, {x, w});
  }
}

// Short and long sums; more rows than one block of them has.
TEST(Kernels, ARowOfAProductDoesNotDependOnTheOtherRows) {
  for (const std::int64_t length : {203, 1030, 1088}) {
    const Tensor x = random_tensor({137, length}, 1, DType::Float32);
    const Tensor w = random_tensor({50, length}, 2, DType::Float32);
    const KernelTable& k = kernels({});
    Tensor all = Tensor::empty({137, 50});
    k.gemm(all, x, false, w, true, false);
    for (const std::int64_t row : {0, 5, 31, 36, 95, 96, 136}) {
      Tensor one = Tensor::empty({1, 50});
      k.gemm(one, x.narrow(0, row, 1), false, w, true, false);
      EXPECT_EQ(values(one), values(all.narrow(0, row, 1))) << "row " << row << ", sums of " << length;
    }
  }
}

}  // namespace
}  // namespace tutti::tensor::test
