// Work::on_completion: who is called, when, on which thread, and after failures.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/net_test.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kLarge = 1 << 20;  // elements; far above the eager limit

class Completion : public OverNets {};

/// A callback that can be waited for.
class Bell {
 public:
  std::function<void()> callback() const {
    return [state = state_] {
      if (++state->calls == 1) state->rung.set_value(std::this_thread::get_id());
    };
  }
  std::thread::id wait() { return future_.get(); }
  int calls() const { return state_->calls; }

 private:
  struct State {
    std::promise<std::thread::id> rung;
    std::atomic<int> calls{0};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::future<std::thread::id> future_ = state_->rung.get_future();
};

TEST_P(Completion, OfACollectiveThatNobodyWaitsFor) {
  run(3, [](ProcessGroup& group) {
    std::vector<float> values(kLarge, static_cast<float>(group.rank()));
    Bell bell;
    const Work work = group.all_reduce_async(buffer(std::span(values)));
    work.on_completion([&, tell = bell.callback()] {
      EXPECT_TRUE(work.is_completed());
      EXPECT_EQ(work.exception(), nullptr);
      tell();
    });
    bell.wait();
    EXPECT_EQ(values.back(), 3.0f);
    group.barrier();
    EXPECT_EQ(bell.calls(), 1);
  });
}

TEST_P(Completion, OfMessagesThatNobodyWaitsFor) {
  run(2, [](ProcessGroup& group) {
    for (const std::size_t count : {std::size_t{5}, kLarge}) {
      std::vector<float> mine(count, static_cast<float>(group.rank())), theirs(count);
      Bell received, sent;
      const Work receive = group.irecv(buffer(std::span(theirs)), 1 - group.rank());
      receive.on_completion([&, tell = received.callback()] {
        EXPECT_EQ(receive.source_rank(), 1 - group.rank());
        tell();
      });
      group.isend(buffer(std::span(mine)), 1 - group.rank()).on_completion(sent.callback());
      received.wait();
      sent.wait();
      EXPECT_EQ(theirs.back(), static_cast<float>(1 - group.rank()));
      group.barrier();
      EXPECT_EQ(received.calls() + sent.calls(), 2);
    }
  });
}

TEST_P(Completion, OfAMessageThatAnotherCallHasBroughtAbout) {
  run(1, [](ProcessGroup& group) {
    std::vector<int> incoming(3), outgoing{1, 2, 3};
    std::vector<int> order;
    const Work receive = group.irecv(buffer(std::span(incoming)), 0);
    for (int i = 0; i < 3; ++i) receive.on_completion([&order, i] { order.push_back(i); });
    EXPECT_TRUE(order.empty());
    group.send(std::span(outgoing), 0);
    EXPECT_EQ(order, (std::vector{0, 1, 2}));
    EXPECT_EQ(incoming, outgoing);
  });
}

TEST_P(Completion, IsToldBeforeTheGroupIsGone) {
  std::atomic<int> calls{0};
  run(1, [&calls](ProcessGroup& group) {
    std::vector<float> values(kLarge, 1.0f);
    group.all_reduce_async(buffer(std::span(values))).on_completion([&calls] {
      std::this_thread::yield();
      ++calls;
    });
    group.shutdown();
  });
  EXPECT_EQ(calls, 1);
}

TEST_P(Completion, IsToldAtOnceOfWhatIsOver) {
  run(2, [](ProcessGroup& group) {
    const auto told_at_once = [](Work work) {
      Bell bell;
      work.on_completion(bell.callback());
      return bell.calls() == 1 && bell.wait() == std::this_thread::get_id();
    };
    Work barrier = group.barrier_async();
    barrier.wait();
    EXPECT_TRUE(told_at_once(barrier));
    EXPECT_TRUE(told_at_once(Work()));
    int value = group.rank();
    Work message =
        group.rank() == 0 ? group.isend({&value, 1, DType::Int32}, 1) : group.irecv({&value, 1, DType::Int32}, 0);
    message.wait();
    EXPECT_TRUE(told_at_once(message));
    group.barrier();
  });
}

TEST_P(Completion, OfFailedOperations) {
  std::atomic<bool> under_way{false}, checked{false};
  run_to_failure(2, [&](ProcessGroup& group) {
    if (group.rank() == 1) {
      while (!under_way) std::this_thread::yield();
      return group.abort("enough");
    }
    std::vector<float> values(kLarge), message(kLarge);
    Bell reduced, received;
    const Work reduction = group.all_reduce_async(buffer(std::span(values)));
    const Work receive = group.irecv(buffer(std::span(message)), 1);
    reduction.on_completion(reduced.callback());
    receive.on_completion(received.callback());
    under_way = true;
    reduced.wait();
    received.wait();
    EXPECT_NE(reduction.exception(), nullptr);
    EXPECT_NE(receive.exception(), nullptr);
    checked = true;
  });
  EXPECT_TRUE(checked);
}

TEST_P(Completion, WakesAPollLoop) {
  run(2, [](ProcessGroup& group) {
    const int event = ::eventfd(0, EFD_CLOEXEC);
    std::vector<float> a(1000, 1.0f), b(kLarge, 1.0f);
    group.all_reduce_async(buffer(std::span(a))).on_completion([event] { ::eventfd_write(event, 1); });
    group.all_reduce_async(buffer(std::span(b))).on_completion([event] { ::eventfd_write(event, 1); });
    eventfd_t told = 0;
    for (eventfd_t news = 0; told < 2 && ::eventfd_read(event, &news) == 0;) told += news;
    EXPECT_EQ(told, 2u);
    EXPECT_EQ(a.back() + b.back(), 4.0f);
    ::close(event);
  });
}

/// Callbacks that are given while operations complete: none is lost, none is called twice.
TEST_P(Completion, RacesWithTheCall) {
  constexpr int kRounds = 200;
  run(2, [](ProcessGroup& group) {
    std::vector<std::atomic<int>> calls(2 * kRounds);
    std::vector<int> incoming(kRounds);
    std::vector<float> sums(kRounds, 1.0f);
    std::vector<Work> works;
    for (std::size_t i = 0; i < kRounds; ++i) {
      works.push_back(group.irecv({&incoming[i], 1, DType::Int32}, 1 - group.rank()));
      works.push_back(group.all_reduce_async({&sums[i], 1, DType::Float32}));
      const int value = static_cast<int>(i);
      group.send({&value, 1, DType::Int32}, 1 - group.rank());
      for (const std::size_t k : {2 * i, 2 * i + 1}) works[k].on_completion([&calls, k] { ++calls[k]; });
    }
    for (Work& work : works) work.wait();
    group.barrier();
    group.shutdown();
    const auto told = [](const auto& n) { return n > 0; };  // the helpers may still be at it
    while (!std::all_of(calls.begin(), calls.end(), told)) std::this_thread::yield();
    for (const auto& n : calls) EXPECT_EQ(n, 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Nets, Completion, testing::Values(Net::Inproc, Net::Tcp, Net::Shm),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::comm
