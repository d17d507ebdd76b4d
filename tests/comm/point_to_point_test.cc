// send, recv, isend, irecv: tags, any source, other threads, helpers. Lengths and orders: conformance_messages_test.cc;
// beside collectives: mixed_operations.h.
#include <gtest/gtest.h>
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/net_test.h>
#include <tutti/tests/support/expect_text.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kLargeMessage = 3 << 20;  // elements; far above the eager limit and the sockets' buffers

class PointToPointTest : public OverNets {};

std::vector<float> ramp(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_P(PointToPointTest, ARankWaitsForWhatAnotherThreadOfItsOwnSends) {
  run(2, [](ProcessGroup& group) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{20'000}, std::size_t{200'000}}) {
      std::vector<float> got(count);
      Work receive = group.irecv(buffer(std::span(got)), group.rank(), 3);
      const auto sent = ramp(count, static_cast<float>(group.rank()));
      std::thread sender([&] { group.send(std::span<const float>(sent), group.rank(), 3); });
      receive.wait();
      sender.join();
      ASSERT_EQ(got, sent);
    }
  });
}

TEST_P(PointToPointTest, TagsMayBeReceivedInAnyOrder) {
  run(2, [](ProcessGroup& group) {
    std::vector<float> large = ramp(kLargeMessage, 1);
    std::vector<float> small{42};
    if (group.rank() == 0) {
      Work first = group.isend(buffer(std::span(large)), 1, 1);
      group.send(std::span<float>(small), 1, 2);
      first.wait();
    } else {
      std::vector<float> received(1);
      group.recv(std::span<float>(received), 0, 2);  // overtakes the large one
      EXPECT_EQ(received, small);
      std::vector<float> rest(kLargeMessage);
      group.recv(std::span<float>(rest), 0, 1);
      EXPECT_EQ(rest, large);
    }
  });
}

TEST_P(PointToPointTest, EqualTagsArriveInOrder) {
  run(2, [](ProcessGroup& group) {
    for (int i = 0; i < 200; ++i) {
      // Eager and announced messages alternate.
      std::vector<std::int32_t> data(i % 3 == 0 ? 40'000 : 10, i);
      if (group.rank() == 0) {
        group.send(std::span<std::int32_t>(data), 1);
      } else {
        std::vector<std::int32_t> received(data.size());
        group.recv(std::span<std::int32_t>(received), 0);
        ASSERT_EQ(received, data) << i;
      }
    }
  });
}

TEST_P(PointToPointTest, AnySourceTellsWhoSent) {
  run(4, [](ProcessGroup& group) {
    if (group.rank() != 0) {
      std::vector<std::int64_t> data{group.rank() * 100};
      group.send(std::span<std::int64_t>(data), 0, 5);
      return;
    }
    std::vector<bool> seen(4);
    for (int i = 1; i < 4; ++i) {
      std::vector<std::int64_t> data(1);
      const int source = group.recv(std::span<std::int64_t>(data), kAnySource, 5);
      EXPECT_EQ(data[0], source * 100);
      EXPECT_FALSE(seen[static_cast<std::size_t>(source)]);
      seen[static_cast<std::size_t>(source)] = true;
    }
  });
}

TEST_P(PointToPointTest, NonBlockingOnesCompleteWithoutAnybodyWaiting) {
  run(2, [](ProcessGroup& group) {
    auto mine = ramp(kLargeMessage, 5);
    std::vector<float> theirs(kLargeMessage);
    Work received = group.irecv(buffer(std::span(theirs)), 1 - group.rank(), 3);
    Work sent = group.isend(buffer(std::span(mine)), 1 - group.rank(), 3);
    while (!received.is_completed() || !sent.is_completed()) std::this_thread::yield();
    EXPECT_EQ(received.source_rank(), 1 - group.rank());
    EXPECT_EQ(received.exception(), nullptr);
    EXPECT_EQ(theirs, mine);
  });
}

TEST_P(PointToPointTest, WaitForComesBackWhileTheMessageIsStillMissing) {
  run(2, [](ProcessGroup& group) {
    std::vector<float> data{1};
    if (group.rank() == 0) {
      Work received = group.irecv(buffer(std::span(data)), 1);
      EXPECT_FALSE(received.wait_for(std::chrono::milliseconds(1)));
      group.barrier();  // only now does rank 1 send
      received.wait();
      EXPECT_TRUE(received.wait_for(std::chrono::milliseconds(0)));
      EXPECT_EQ(data[0], 9);
    } else {
      group.barrier();
      data[0] = 9;
      group.send(std::span<float>(data), 0);
    }
  });
}

TEST_P(PointToPointTest, OneThreadSendsWhileAnotherWaits) {
  // The helper sleeps on behalf of the early receive while the sends use the same connections.
  static constexpr int kMessages = 3000;
  run(2, [](ProcessGroup& group) {
    const int peer = 1 - group.rank();
    std::vector<std::int32_t> last(1);
    Work early = group.irecv(buffer(std::span(last)), peer, 9);
    std::vector<std::int32_t> numbers(kMessages + 1);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      works.push_back(group.isend(const_buffer(std::span(numbers).subspan(static_cast<std::size_t>(i), 1)), peer));
      // Now and then for so long that the helper goes to sleep.
      const auto pause = std::chrono::steady_clock::now() + std::chrono::milliseconds(i % 50 == 0 ? 2 : 0);
      while (std::chrono::steady_clock::now() < pause) std::this_thread::yield();
    }
    for (int i = 0; i < kMessages; ++i) {
      std::int32_t number = -1;
      group.recv(std::span(&number, 1), peer);
      ASSERT_EQ(number, i);
    }
    group.send(std::span(numbers).last(1), peer, 9);
    early.wait();
    EXPECT_EQ(last[0], kMessages);
  });
}

TEST_P(PointToPointTest, MessagesToOneself) {
  run(1, [](ProcessGroup& group) {
    std::vector<float> data{1, 2, 3};
    std::vector<float> first(3);
    std::vector<float> second(3);
    Work early = group.irecv(buffer(std::span(first)), 0, 1);
    group.send(std::span<float>(data), 0, 1);
    group.send(std::span<float>(data), 0, 2);
    group.recv(std::span<float>(second), kAnySource, 2);
    early.wait();
    EXPECT_EQ(first, data);
    EXPECT_EQ(second, data);
  });
}

TEST_P(PointToPointTest, WrongTypeOrCountNamesBothSides) {
  for (const bool receive_first : {true, false}) {
    const auto outcomes = run_to_failure(2, [&](ProcessGroup& group) {
      std::vector<float> data(10);
      std::vector<double> other(11);
      if (group.rank() == 0) {
        if (receive_first) group.store()->get("posted", Deadline::after(std::chrono::seconds(10)));
        group.send(std::span<float>(data), 1, 4);
        group.store()->set("sent", "", Deadline::after(std::chrono::seconds(10)));
        group.barrier();
      } else if (receive_first) {
        Work work = group.irecv(buffer(std::span(other)), 0, 4);
        group.store()->set("posted", "", Deadline::after(std::chrono::seconds(10)));
        work.wait();
      } else {
        group.store()->get("sent", Deadline::after(std::chrono::seconds(10)));
        group.recv(std::span<double>(other), 0, 4);
      }
    });
    ASSERT_TRUE(outcomes[0] && outcomes[1]);
    EXPECT_EQ(outcomes[1]->code(), ErrorCode::Mismatch) << outcomes[1]->what();
    for (const auto& outcome : outcomes) {
      const std::string text = outcome->what();
      test::expect_parts(text, {"float64 x 11, tag 4", "float32 x 10, tag 4"});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, PointToPointTest, testing::ValuesIn(kNets), testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::comm
