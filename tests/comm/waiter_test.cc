// Whether a thread that waits polls, gives way or sleeps, and what it remembers of the processor.
#include <gtest/gtest.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <chrono>
#include <memory>

namespace tutti::comm {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Time = ComputesHere::Clock::time_point;

/// Of a rank that shares its processor with others.
class WaiterOfMany : public testing::Test {
 protected:
  bool sleeps_at_once() {
    Waiter waiter(transport_, monitor_, operation_, Deadline::after(hours(1)), hours(1));
    return waiter.should_block();
  }

  TcpTransport transport_{[] {
    TcpTransportOptions options;
    options.world_size = 1;
    options.oversubscribed = true;
    return options;
  }()};
  FailureMonitor monitor_{std::make_shared<HashStore>(), "group", 0, 1, [](int) { return std::string("rank 0"); }};
  const Fingerprint operation_;
};

TEST_F(WaiterOfMany, GivesWayBeforeItSleeps) { EXPECT_FALSE(sleeps_at_once()); }

TEST_F(WaiterOfMany, SleepsAtOnceWhileSomebodyComputesOnItsProcessor) {
  const auto now = std::chrono::steady_clock::now();
  transport_.computes_here.gave_way(now, now + hours(1));
  EXPECT_TRUE(sleeps_at_once());
}

/// For how long after coming back `here` says that somebody computes; to 1 us.
microseconds believed(const ComputesHere& here, Time back) {
  microseconds rest(0);
  while (here.until(back + rest)) ++rest;
  return rest;
}

TEST(ComputesHere, IsBelievedLongerEachTime) {
  ComputesHere here;
  Time now = std::chrono::steady_clock::now();
  EXPECT_FALSE(here.until(now));
  for (const int expected : {100, 200, 400, 800, 1600, 3200, 6400, 12'800, 25'600, 50'000, 50'000}) {
    const Time back = now + milliseconds(3);
    here.gave_way(now, back);
    EXPECT_EQ(believed(here, back), microseconds(expected));
    now = back + microseconds(expected);
    EXPECT_FALSE(here.until(now)) << "that is over";
  }
}

TEST(ComputesHere, WhoIsOftenBackSoonHadOnlyToWaitForItsTurn) {
  ComputesHere here;
  const Time start = std::chrono::steady_clock::now();
  const Time back = start + milliseconds(3);
  for (int i = 0; i < 5; ++i) here.gave_way(start, back);
  for (int i = 0; i < ComputesHere::kOften - 1; ++i) here.gave_way(start, start + microseconds(5));
  here.gave_way(start, back);
  EXPECT_EQ(believed(here, back), microseconds(3200)) << "not often enough";
  for (int i = 0; i < ComputesHere::kOften; ++i) here.gave_way(start, start + microseconds(5));
  here.gave_way(start, back);
  EXPECT_EQ(believed(here, back), microseconds(100));
}

}  // namespace
}  // namespace tutti::comm
