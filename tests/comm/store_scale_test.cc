// The store server under crowds: many clients, many requests, many that misbehave. Full size: bench/store_scale.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tutti/bench/store_swarm.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/tests/support/in_threads.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <limits>
#include <stdexcept>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
using bench::RoundTrips;
using bench::StoreSwarm;
using tutti::test::Watchdog;

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kFast = true;
#else
constexpr bool kFast = false;
#endif

double seconds_on(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(StoreScale, CrowdPassesABarrier) {
  Watchdog watchdog;
  constexpr int kThreads = 3, kClients = kFast ? 500 : 100;  // each
  raise_descriptor_limit(2 * kThreads * kClients + 64, "this test");
  TcpStoreServer server(server_options());
  std::atomic<int> passed = 0;
  in_threads(kThreads, [&](int) {
    StoreSwarm swarm(client_options(server.port()), kClients, soon());
    for (const char* name : {"first", "second"}) swarm.barrier(name, kThreads * kClients, soon());
    ++passed;
  });
  EXPECT_EQ(passed, kThreads);
}

TEST(StoreScale, RequestsTakeLittleOfTheServersTime) {
  Watchdog watchdog;
  TcpStoreServer server(server_options());
  StoreSwarm swarm(client_options(server.port()), 16, soon());
  // The server's thread is the only other one of this process that works.
  const auto server_seconds = [] { return seconds_on(CLOCK_PROCESS_CPUTIME_ID) - seconds_on(CLOCK_THREAD_CPUTIME_ID); };
  const double before = server_seconds();
  const std::uint64_t answered = swarm.hammer(8, std::chrono::milliseconds(300));
  const double used = server_seconds() - before;
  EXPECT_GT(answered, 100u);
  if (kFast) {
    EXPECT_GT(static_cast<double>(answered) / used, 100'000) << answered << " requests took " << used << " s";
  }
  TcpStore store(client_options(server.port()), soon());
  EXPECT_EQ(store.num_keys(soon()), 16 + 16 + 1);  // a value and a counter of each, and the shared one
}

class StoreBystander : public testing::Test {
 protected:
  void SetUp() override {
    bystander_.set("big", std::string(2 << 20, 'b'), soon());
    bench::time_round_trips(bystander_, 100);
    before_ = bench::time_round_trips(bystander_, 500);
  }
  /// A server that waits for one client would need as long as that client likes.
  void expect_undisturbed() {
    const RoundTrips during = bench::time_round_trips(bystander_, 500);
    EXPECT_LT(during.median, 10 * before_.median + 0.002);
    EXPECT_LT(during.p99, 10 * before_.p99 + 0.1);
  }

  Watchdog watchdog_;
  CapturedLog log_;
  TcpStoreServer server_{server_options()};
  TcpStore bystander_{client_options(server_.port()), soon()};
  RoundTrips before_;
};

TEST_F(StoreBystander, IsNotSlowedByHalfRequests) {
  StoreSwarm swarm(client_options(server_.port()), 100, soon());
  swarm.send_halves();
  expect_undisturbed();
}

TEST_F(StoreBystander, IsNotSlowedByClientsThatNeverRead) {
  StoreSwarm swarm(client_options(server_.port()), 8, soon());
  swarm.ask_without_reading("big", 50);
  expect_undisturbed();
}

TEST_F(StoreBystander, IsNotSlowedByConnectionsWithoutAHandshake) {
  raise_descriptor_limit(2000 + 64, "this test");
  const auto silent = bench::connect_silently(server_.port(), 1000);
  expect_undisturbed();
  // And newcomers get in.
  TcpStore(client_options(server_.port()), soon()).set("k", "v", soon());
}

TEST(StoreDescriptors, StrangersGiveWayToClientsWhenTheyRunOut) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined behaviour sanitizer looks at memory through a pipe, which needs descriptors";
#endif
  int port_pipe[2];
  ASSERT_EQ(::pipe(port_pipe), 0);
  const Socket reading(port_pipe[0]), writing(port_pipe[1]);
  Child process([&] {
    set_log_sink([](LogLevel, std::string_view) {});
    const rlimit few{64, 64};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("setrlimit");
    TcpStoreServer server(server_options());
    const std::uint16_t port = server.port();
    if (::write(writing.get(), &port, sizeof port) != sizeof port) throw std::runtime_error("write");
    for (;;) ::pause();
  });
  Watchdog watchdog;  // only now: the child starts a thread, which the thread sanitizer allows only if none was there
  std::uint16_t port = 0;
  ASSERT_EQ(::read(reading.get(), &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const auto silent = bench::connect_silently(port, 100);
  const auto start = std::chrono::steady_clock::now();
  TcpStore(client_options(port), soon()).set("k", "v", soon());
  // A second of patience with the strangers, well short of the ten that a handshake may take.
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 8.0);
}

TEST(StoreDescriptors, WorldThatNeedsTooManyIsRefusedWithBothNumbers) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max > static_cast<rlim_t>(std::numeric_limits<int>::max() / 2)) GTEST_SKIP() << "there is no limit";
  TcpStoreServerOptions options = server_options();
  options.world_size = static_cast<int>(limit.rlim_max) + 1;
  expect_error(ErrorCode::System,
               {"a store server for " + std::to_string(options.world_size) + " ranks needs ",
                "hard limit " + std::to_string(limit.rlim_max), "RLIMIT_NOFILE"},
               [&] { TcpStoreServer server(options); });
}

TEST(StoreDescriptors, SoftLimitIsRaisedForTheWorld) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 600) GTEST_SKIP() << "the hard limit is " << before.rlim_max;
  const rlimit low{200, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  TcpStoreServerOptions options = server_options();
  options.world_size = 500;
  TcpStoreServer server(options);
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_GT(after.rlim_cur, 500u);
  EXPECT_LE(after.rlim_cur, 600u);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace tutti::comm
