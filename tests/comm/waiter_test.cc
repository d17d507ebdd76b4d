// Whether a thread that waits polls, gives way or sleeps.
#include <gtest/gtest.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <chrono>
#include <memory>

namespace tutti::comm {
namespace {

using std::chrono::hours;

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
  transport_.computes_here.note(now + hours(1));
  EXPECT_TRUE(sleeps_at_once());
  transport_.computes_here.note(now);
  EXPECT_FALSE(sleeps_at_once()) << "that is over";
}

}  // namespace
}  // namespace tutti::comm
