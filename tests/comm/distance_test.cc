// What ranks that are further away from each other than memory do: how they know it, and that nothing is lost.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/transport/shm/copy_speed.h>
#include <tutti/comm/transport/shm/distance.h>
#include <tutti/tests/support/run_ranks.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

using namespace std::chrono_literals;
using test::Net;
using test::run_ranks;

constexpr const char* kVariable = "TUTTI_FAR_LINE_NS";

class Far : public testing::Test {
 protected:
  void SetUp() override { ::setenv(kVariable, "0", 1); }  // everybody is
  void TearDown() override { ::unsetenv(kVariable); }
};

TEST(Distance, IsFarAfterSomeSlowLinesAndNotAfterOne) {
  Distance distance(100ns);
  distance.sample(10ms);
  EXPECT_FALSE(distance.is_far());
  for (int i = 0; i < Distance::kSamples; ++i) distance.sample(160ns);
  EXPECT_TRUE(distance.is_far());
}

TEST(Distance, StaysWhatItIsWhileAFewSamplesDiffer) {
  Distance distance(100ns);
  for (int i = 0; i < 100; ++i) {
    distance.sample(i % 3 == 0 ? 50ns : 160ns);
    EXPECT_TRUE(distance.is_far() || i <= 3 * Distance::kSamples) << i;
  }
  for (int i = 0; i < 100; ++i) {
    distance.sample(i % 3 == 0 ? 160ns : 50ns);
    EXPECT_TRUE(!distance.is_far() || i <= 3 * Distance::kSamples) << i;
  }
}

TEST(Distance, ALineThatNobodyHasWrittenSaysNothing) {
  std::atomic<std::uint64_t> line{0};
  std::uint64_t seen = 0;
  Distance distance(0ns);
  for (int i = 0; i < 2 * Distance::kSamples; ++i) EXPECT_EQ(distance.load(line, seen), 0u);
  EXPECT_FALSE(distance.is_far());
  for (std::uint64_t i = 1; i <= Distance::kSamples; ++i) {
    line = i;
    EXPECT_EQ(distance.load(line, seen), i);
    EXPECT_EQ(seen, i);
  }
  EXPECT_TRUE(distance.is_far());
}

TEST(CopySpeed, IsSlowAfterManySlowCopiesAndNotAfterOne) {
  CopySpeed speed;
  speed.sample(1'000, 10ms);
  EXPECT_FALSE(speed.is_slow());
  for (int i = 0; i < CopySpeed::kCopies; ++i) speed.sample(16'384, 8us);  // 2 GB/s
  EXPECT_TRUE(speed.is_slow());
  for (int i = 0; i < CopySpeed::kCopies; ++i) {
    EXPECT_TRUE(speed.is_slow());
    speed.sample(16'384, 1'600ns);  // 10 GB/s
  }
  EXPECT_FALSE(speed.is_slow());
}

TEST(CopySpeed, CopiesAndTimesWhatIsLongEnough) {
  CopySpeed speed;
  int copies = 0;
  const auto slowly = [&] {
    ++copies;
    const auto end = std::chrono::steady_clock::now() + 10us;
    while (std::chrono::steady_clock::now() < end) continue;
  };
  for (int i = 0; i < 2 * CopySpeed::kCopies; ++i) speed.time(CopySpeed::kTimedBytes - 1, slowly);
  EXPECT_FALSE(speed.is_slow());
  for (int i = 0; i < CopySpeed::kCopies; ++i) speed.time(CopySpeed::kTimedBytes, slowly);
  EXPECT_TRUE(speed.is_slow());
  EXPECT_EQ(copies, 3 * CopySpeed::kCopies);
}

TEST(StreamChoice, GoesPastTheCachesWhereCopiesAreSlowAndTriesTheCachesNowAndThen) {
  StreamChoice choice;
  EXPECT_FALSE(choice.choose(false));
  for (int lap = 0; lap < 3; ++lap) {
    int streamed = 0;
    for (int i = 0; i < StreamChoice::kStreamed + CopySpeed::kCopies; ++i) streamed += choice.choose(true) ? 1 : 0;
    EXPECT_EQ(streamed, StreamChoice::kStreamed) << lap;
  }
  EXPECT_FALSE(choice.choose(false));
  EXPECT_TRUE(choice.choose(true));
}

TEST_F(Far, AVariableThatIsSetDecidesAlone) {
  EXPECT_TRUE(Distance().decides());
  ::unsetenv(kVariable);
  EXPECT_FALSE(Distance().decides());
}

TEST_F(Far, TheVariableIsTheLimit) {
  EXPECT_EQ(Distance::far_line(), 0ns);
  ::setenv(kVariable, "1000000000", 1);
  EXPECT_EQ(Distance::far_line(), 1s);
}

TEST(Distance, ALookAtTheClockIsAllowedFor) {
  EXPECT_GE(Distance::far_line(), 120ns);
  EXPECT_EQ(Distance::far_line(), Distance::far_line());
}

TEST_F(Far, AVariableThatIsNoNumberIsRefused) {
  for (const char* value : {"", "-1", "12x", "1.5", "far"}) {
    ::setenv(kVariable, value, 1);
    try {
      Distance::far_line();
      ADD_FAILURE() << "'" << value << "' was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find(std::string("TUTTI_FAR_LINE_NS is '") + value + "'"), std::string::npos)
          << error.what();
    }
  }
}

/// What element `i` of a rank's contribution is; sums of a few are exact.
float value(int rank, int round, std::size_t i) {
  return static_cast<float>(1'000 * rank + 7 * round) + static_cast<float>(i % 97);
}

float sum(int ranks, int round, std::size_t i) {
  float total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, round, i);
  return total;
}

using Values = std::vector<float>;

Values numbers(std::size_t count, const std::function<float(std::size_t)>& value) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
  return values;
}

void exchange(ProcessGroup& group, std::size_t count, int round) {
  SCOPED_TRACE(std::to_string(count) + " elements, round " + std::to_string(round));
  const int ranks = group.world_size(), rank = group.rank(), root = round % ranks;
  const auto of = [&](int who) { return numbers(count, [&](std::size_t i) { return value(who, round, i); }); };
  const Values own = of(rank), total = numbers(count, [&](std::size_t i) { return sum(ranks, round, i); });
  Values whole, got = own;
  for (int who = 0; who < ranks; ++who) {
    const Values block = of(who);
    whole.insert(whole.end(), block.begin(), block.end());
  }
  group.all_reduce(std::span(got));
  EXPECT_EQ(got, total);
  got = own;
  group.broadcast(std::span(got), root);
  EXPECT_EQ(got, of(root));
  Values all(whole.size());
  group.all_gather(std::span(own), std::span(all));
  EXPECT_EQ(all, whole);
  got.assign(count, 0);
  group.reduce_scatter(std::span(std::as_const(whole)), std::span(got));
  EXPECT_EQ(got, numbers(count, [&](std::size_t i) { return static_cast<float>(ranks) * value(rank, round, i); }));
  got.assign(rank == root ? count : 0, 0);
  group.reduce(std::span(own), std::span(got), ReduceOp::Sum, root);
  EXPECT_TRUE(rank != root || got == total);
  got.assign(count, 0);
  const int before = (rank + ranks - 1) % ranks;
  group.sendrecv(const_buffer(std::span(own)), (rank + 1) % ranks, buffer(std::span(got)), before);
  EXPECT_EQ(got, of(before));
}

/// Lengths that go through slots, one chunk, and many with a rest; all know how far the others are after two rounds.
TEST_F(Far, CollectivesAndMessagesAreWhole) {
  constexpr int kRounds = 8;
  for (const int ranks : {2, 3}) {
    const auto body = [&](ProcessGroup& group) {
      for (int round = 0; round < kRounds; ++round)
        for (const std::size_t count : {1'001, 7'003, 50'021, 300'007}) exchange(group, count, round);
    };
    run_ranks(ranks, body, {.net = Net::Shm});
  }
}

TEST_F(Far, AGroupIsNotMadeWithAVariableThatIsNoNumber) {
  ::setenv(kVariable, "near", 1);
  for (const auto& failure : test::run_ranks_to_failure(2, [](ProcessGroup&) {}, {.net = Net::Shm})) {
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->code(), ErrorCode::InvalidArgument) << failure->what();
  }
}

}  // namespace
}  // namespace tutti::comm
