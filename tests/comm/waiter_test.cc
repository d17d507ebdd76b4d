// A thread that waits polls for a while before it sleeps; how long depends on the transport alone. Connections are
// accepted by ranks that wait, and by those that never do.
#include <gtest/gtest.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/lone_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <chrono>
#include <memory>
#include <span>

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

class CountingTransport final : public LoneTransport {
 public:
  explicit CountingTransport(int& services) : services_(services) {}
  bool service() override {
    ++services_;
    return false;
  }

 private:
  int& services_;
};

TEST(Waiter, ARankThatNeverWaitsAcceptsConnections) {
  int services = 0;
  ProcessGroup group(std::make_shared<HashStore>(), std::make_unique<CountingTransport>(services), {});
  float value = 1;
  for (int call = 0; call < 3000; ++call) group.all_reduce(std::span<float>(&value, 1));
  EXPECT_GE(services, 2);
  EXPECT_LE(services, 10) << "each is a system call";
}

}  // namespace
}  // namespace tutti::comm
