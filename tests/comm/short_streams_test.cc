// Rows of short operations and messages, one way only and between others: all comes whole, and nothing waits for an
// acknowledgement that its receiver's system puts off (transport/tcp/packet_sharing.h).
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/run_ranks.h>

#include <chrono>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tutti::test::Net;

struct Stream {
  Net net;
  int world;
};

// A round in time: a frame held back too long would wait for 40 ms, and a round has 300 operations. The thread
// sanitizer makes each of them ten times slower.
#if defined(__SANITIZE_THREAD__)
constexpr milliseconds kRoundTime(100);
#else
constexpr milliseconds kRoundTime(20);
#endif

class ShortStreams : public testing::TestWithParam<Stream> {
 protected:
  static constexpr int kRounds = 50;
  static constexpr int kInARow = 100;
};

/// With all roots, and an exchange of all ranks in between.
TEST_P(ShortStreams, ComeWholeAndInTime) {
  const int world = GetParam().world;
  const auto begin = steady_clock::now();
  tutti::test::run_ranks(GetParam().net, world, [&](ProcessGroup& group) {
    for (int round = 0; round < kRounds; ++round) {
      const int root = round % world;
      int received = 0;
      for (int i = 0; i < kInARow; ++i) {
        int value = group.rank() == root ? 1000 * round + i : -1;
        group.broadcast(std::span(&value, 1), root);
        ASSERT_EQ(value, 1000 * round + i);
        const int own = group.rank() + i;
        std::vector<int> total(group.rank() == (root + 1) % world ? 1 : 0);
        group.reduce(std::span(&own, 1), std::span(total), ReduceOp::Sum, (root + 1) % world);
        for (const int sum : total) ASSERT_EQ(sum, world * (world - 1) / 2 + world * i);
        ++received;
      }
      group.all_reduce(std::span(&received, 1));
      ASSERT_EQ(received, kInARow * world);
      for (int i = 0; i < kInARow; ++i) {
        int value = group.rank() == root ? i : -1;
        group.broadcast(std::span(&value, 1), root);
        ASSERT_EQ(value, i);
      }
    }
  });
  EXPECT_LT(steady_clock::now() - begin, kRounds * kRoundTime);
}

/// One rank sends messages, which the other one takes; then it sends some that nobody awaits yet.
TEST_P(ShortStreams, OfMessagesComeWholeAndInTime) {
  const int world = GetParam().world;
  const auto begin = steady_clock::now();
  tutti::test::run_ranks(GetParam().net, world, [&](ProcessGroup& group) {
    const int next = (group.rank() + 1) % world;
    const int previous = (group.rank() + world - 1) % world;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int> values(kInARow);
      std::iota(values.begin(), values.end(), round);
      for (int& value : values) group.send(std::span(&value, 1), next);
      for (const int expected : values) {
        int value = -1;
        group.recv(std::span(&value, 1), previous);
        ASSERT_EQ(value, expected);
      }
    }
  });
  EXPECT_LT(steady_clock::now() - begin, kRounds * kRoundTime);
}

std::string stream_name(const testing::TestParamInfo<Stream>& stream) {
  return tutti::test::name(stream.param.net) + std::to_string(stream.param.world);
}

INSTANTIATE_TEST_SUITE_P(Between, ShortStreams,
                         testing::Values(Stream{Net::Tcp, 2}, Stream{Net::Tcp, 3}, Stream{Net::Tcp, 5},
                                         Stream{Net::Tls, 2}, Stream{Net::Tls, 3}, Stream{Net::Mixed, 4}),
                         stream_name);

}  // namespace
}  // namespace tutti::comm
