// A thread that waits polls for a while before it sleeps; how long depends on the transport alone.
#include <gtest/gtest.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <chrono>
#include <memory>

namespace tutti::comm {
namespace {

TEST(Waiter, SleepsWhenItHasPolledForTheTransportsPatience) {
  for (const bool oversubscribed : {false, true}) {
    TcpTransportOptions options;
    options.oversubscribed = oversubscribed;
    TcpTransport transport(options);
    FailureMonitor monitor(std::make_shared<HashStore>(), "group", 0, 1, [](int) { return std::string("rank 0"); });
    const Fingerprint operation;
    const std::chrono::hours hour(1);
    Waiter waiter(transport, monitor, operation, Deadline::after(hour), hour);
    for (int waits = 0; waits < 3; ++waits) {
      const auto begin = std::chrono::steady_clock::now();
      while (!waiter.should_block()) continue;
      EXPECT_GE(std::chrono::steady_clock::now() - begin, transport.patience());
      EXPECT_TRUE(waiter.should_block()) << "until there is progress";
      waiter.progressed();
    }
  }
}

}  // namespace
}  // namespace tutti::comm
