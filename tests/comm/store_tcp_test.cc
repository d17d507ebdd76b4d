// TcpStore with its server: connecting, threads, timeouts, lost servers and lost ranks.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tests/support/in_threads.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
using Seconds = std::chrono::duration<double>;

std::string address_of(const TcpStoreServer& server) { return "127.0.0.1:" + std::to_string(server.port()); }

/// A port that was free a moment ago.
std::uint16_t free_port() { return TcpStoreServer(server_options()).port(); }

TEST(TcpStore, SixteenClientThreadsHammerOneServer) {
  TcpStoreServer server(server_options());
  constexpr int kThreads = 16, kRounds = 200;
  in_threads(kThreads, [&](int i) {
    TcpStore store(client_options(server.port(), i, kThreads), soon());
    const std::string mine = "rank" + std::to_string(i), next = "rank" + std::to_string((i + 1) % kThreads);
    for (int round = 0; round < kRounds; ++round) {
      store.add("sum", 1, soon());
      store.set(mine + "/" + std::to_string(round), mine, soon());
      EXPECT_EQ(store.get(next + "/" + std::to_string(round), soon()), next);
    }
  });
  TcpStore store(client_options(server.port()), soon());
  EXPECT_EQ(store.get("sum", soon()), std::to_string(kThreads * kRounds));
}

TEST(TcpStore, TimeoutNamesTheServerAndLeavesTheConnectionInStep) {
  TcpStoreServer server(server_options());
  TcpStore store(client_options(server.port()), soon());
  for (int round = 0; round < 20; ++round) {
    const std::string key = "absent" + std::to_string(round);
    expect_error(ErrorCode::Timeout, {"\"" + key + "\"", address_of(server)}, [&] { store.get(key, in_ms(2)); });
    store.set(key, key, soon());
    EXPECT_EQ(store.get(key, soon()), key);
  }
}

TEST(TcpStore, PassedDeadlineOfASetIsATimeoutThatSetsNothing) {
  TcpStoreServer server(server_options());
  TcpStore store(client_options(server.port()), soon());
  expect_error(ErrorCode::Timeout, {"set \"k\""}, [&] { store.set("k", "v", in_ms(-1)); });
  EXPECT_EQ(store.num_keys(soon()), 0);
}

TEST(TcpStore, ServerThatEndsIsKnownAtOnce) {
  auto server = std::make_unique<TcpStoreServer>(server_options());
  const std::string address = address_of(*server);
  TcpStore store(client_options(server->port(), 0, 1), soon());
  std::string text;
  const auto start = std::chrono::steady_clock::now();
  std::thread waiter([&] { text = text_of(ErrorCode::PeerLost, [&] { store.get("never", soon()); }); });
  store.add("busy", 1, soon());
  server.reset();
  waiter.join();
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - start).count(), 10.0);
  expect_parts(text, {address, "\"never\""});
  // Every later call says the same, without waiting.
  expect_error(ErrorCode::PeerLost, {address}, [&] { store.set("k", "v", soon()); });
  expect_error(ErrorCode::PeerLost, {address}, [&] { store.wait(keys({"k"}), soon()); });
}

TEST(TcpStore, WrongSecretJobOrWorldIsUnauthorizedAtOnce) {
  CapturedLog log;
  TcpStoreServerOptions served = server_options();
  served.world_size = 4;
  TcpStoreServer server(served);
  const auto refusal = [&](const TcpStoreOptions& options) {
    return text_of(ErrorCode::Unauthorized, [&] { TcpStore(options, soon()); });
  };
  TcpStoreOptions wrong = client_options(server.port(), 1, 4);
  wrong.job_secret = "guess";
  expect_parts(refusal(wrong), {"compare TUTTI_JOB_SECRET", address_of(server)});
  log.wait_for("refused 127.0.0.1:");
  log.wait_for("rank 1 has another job secret; compare TUTTI_JOB_SECRET");

  wrong = client_options(server.port(), 1, 4);
  wrong.job_id = "another job";
  expect_parts(refusal(wrong), {"TUTTI_JOB_ID"});
  expect_parts(refusal(client_options(server.port(), 1, 2)), {"world size 4 here, 2 at rank 1"});
  log.wait_for("compare TUTTI_JOB_ID");
  TcpStore fine(client_options(server.port(), 1, 4), soon());
  fine.set("k", "v", soon());
}

TEST(TcpStore, ClientThatEndsDuringTheHandshakeIsNoWarning) {
  CapturedLog log;
  TcpStoreServer server(server_options());
  {
    RawConnection client(server.port());
    client.send(text(ClientHandshake(PeerIdentity{.rank = 1, .world_size = 4}, "test secret").hello()));
    client.receive(kChallengeBytes);
  }
  log.wait_for_quiet("(rank 1, pid 0) left before it had proved the job secret");
  EXPECT_EQ(log.lines(), "");
}

TEST(TcpStore, NobodyThereIsATimeoutThatListsTheAttempts) {
  const std::uint16_t port = free_port();
  expect_error(ErrorCode::Timeout, {"127.0.0.1:" + std::to_string(port) + ": Connection refused", "times)"},
               [&] { TcpStore(client_options(port), in_ms(100)); });
  // Counted from the first attempt, which comes a little after the deadline is set.
  expect_match(text_of(ErrorCode::Timeout, [&] { TcpStore(client_options(port), in_ms(100)); }),
               " within 0\\.(0[1-9]|1)\\d* s; attempts: ");
  TcpStoreOptions nowhere = client_options(port);
  nowhere.host = "no-such-host.invalid";
  expect_error(ErrorCode::Timeout, {"no-such-host.invalid"}, [&] { TcpStore(nowhere, in_ms(50)); });
}

TEST(TcpStore, ARankThatIsStartedTwiceIsNamed) {
  TcpStoreServer server(server_options());
  const auto first = std::make_unique<TcpStore>(client_options(server.port(), 1, 2), soon());
  const TcpStore of_the_same_process(client_options(server.port(), 1, 2), soon());
  const auto pid = static_cast<std::uint32_t>(::getpid());
  RawConnection second(server.port());
  const std::string text = shake_hands(
      second, {.rank = 1, .world_size = 2, .pid = pid + 1, .job = identity_hash("test job")}, "test secret");
  expect_parts(text, {"rank 1 is here already, as pid " + std::to_string(pid) + " from 127.0.0.1:",
                      "was it started twice? This is pid " + std::to_string(pid + 1)});
}

TEST(TcpStore, AStoreThatIsNotReachedIsToldOfBeforeTheDeadline) {
  CapturedLog log;
  const std::uint16_t port = free_port();
  text_of(ErrorCode::Timeout, [&] { TcpStore(client_options(port, 1, 2), in_ms(5600)); });
  expect_parts(log.lines(), {"rank 1 still tries to reach the store at 127.0.0.1:" + std::to_string(port)});
}

TEST(TcpStore, NameServiceThatDoesNotAnswerEndsAtTheDeadline) {
  const auto answer = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::promise<void>>();
  const auto stuck = [answer, ended] {
    answer->get_future().wait();
    ended->set_value();
    return LookUpResult{{}, "came too late"};
  };
  const LookUpResult result = look_up_within(stuck, in_ms(20));
  EXPECT_TRUE(result.endpoints.empty());
  expect_parts(result.error, {"has not answered in time"});
  answer->set_value();
  ended->get_future().wait();
  const LookUpResult found = look_up_within([] { return LookUpResult{{Endpoint{}}, ""}; }, soon());
  EXPECT_EQ(found.endpoints.size(), 1u);
}

TEST(TcpStore, ServerThatStartsLateIsFound) {
  const std::uint16_t port = free_port();
  std::string got;
  std::thread client([&] { got = TcpStore(client_options(port), soon()).get("k", soon()); });
  TcpStoreServerOptions options = server_options();
  options.port = port;
  TcpStoreServer server(options);
  TcpStore(client_options(port), soon()).set("k", "late", soon());
  client.join();
  EXPECT_EQ(got, "late");
}

TEST(TcpStore, FailedConnectsLeakNoDescriptors) {
  CapturedLog log;
  TcpStoreServer server(server_options());
  const std::uint16_t dead = free_port();
  TcpStoreOptions stranger = client_options(server.port());
  stranger.job_secret = "guess";
  text_of(ErrorCode::Timeout, [&] { TcpStore(client_options(dead), in_ms(1)); });
  ASSERT_TRUE(server.wait_until_unused(soon()));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    text_of(ErrorCode::Timeout, [&] { TcpStore(client_options(dead), in_ms(0)); });
    text_of(ErrorCode::Unauthorized, [&] { TcpStore(stranger, soon()); });
  }
  // The server's ends of the refused connections close a moment later.
  const Deadline patience = soon();
  while (open_descriptors() > before && !patience.expired()) std::this_thread::yield();
  EXPECT_LE(open_descriptors(), before);
}

TEST(TcpStore, LocalhostReachesAServerOnIpv4LoopbackOnly) {
  TcpStoreServer server(server_options());
  TcpStoreOptions options = client_options(server.port());
  options.host = "localhost";
  TcpStore store(options, soon());
  store.set("k", "v", soon());
  EXPECT_EQ(store.local_address(), "127.0.0.1");
}

TEST(TcpStore, AllInterfacesTakeIpv4AndIpv6) {
  TcpStoreServerOptions options = server_options();
  options.bind_address = "";
  TcpStoreServer server(options);
  TcpStore v4(client_options(server.port()), soon());
  EXPECT_EQ(v4.local_address(), "127.0.0.1");
  TcpStoreOptions v6_options = client_options(server.port());
  v6_options.host = "::1";
  if (route_source("::1").empty()) GTEST_SKIP() << "this host has no IPv6 loopback";
  TcpStore v6(v6_options, soon());
  EXPECT_EQ(v6.local_address(), "::1");
  v6.set("k", "v", soon());
  EXPECT_EQ(v4.get("k", soon()), "v");
}

TEST(TcpStore, ForkedChildIsToldToMakeItsOwn) {
  TcpStoreServer server(server_options());
  TcpStore store(client_options(server.port()), soon());
  Child child([&] {
    expect_error(ErrorCode::InvalidArgument, {"was forked from it"}, [&] { store.set("k", "child", in_ms(1000)); });
  });
  EXPECT_EQ(child.end(), 0);
  store.set("k", "parent", soon());
  EXPECT_EQ(store.get("k", soon()), "parent");
}

TEST(TcpStore, DestroyedInAForkedChildItLeavesTheParentsAlone) {
  auto server = std::make_unique<TcpStoreServer>(server_options());
  auto store = std::make_unique<TcpStore>(client_options(server->port(), 0, 1), soon());
  Child child([&] {
    store.reset();
    server.reset();
  });
  EXPECT_EQ(child.end(), 0);
  store->set("k", "v", soon());
  EXPECT_EQ(store->get("k", soon()), "v");
  TcpStore late(client_options(server->port()), soon());
  EXPECT_EQ(late.get("k", soon()), "v");
}

/// A server with one client, rank 0 of 2, that learns of others.
class LostRanks : public testing::Test {
 protected:
  TcpStoreOptions rank(int number) const { return client_options(server_.port(), number, number < 2 ? 2 : -1); }
  /// A connection that breaks without a goodbye.
  void connect_and_die(int number) const { RawConnection dies(connect_to_store(rank(number), soon())); }
  bool is_lost(const char* rank) { return watcher_.check(std::vector{std::string("tutti/lost/") + rank}, soon()); }

  TcpStoreServer server_{server_options()};
  TcpStore watcher_{rank(0), soon()};
};

TEST_F(LostRanks, AreAnnounced) {
  connect_and_die(1);
  const std::string text = watcher_.get("tutti/lost/1", soon());
  expect_parts(text, {"rank 1", "pid " + std::to_string(::getpid()),
                      "127.0.0.1:", "its connection to the store broke without a goodbye"});
}

TEST_F(LostRanks, AreNoLongerLostWhenTheyComeBack) {
  connect_and_die(1);
  connect_and_die(12);
  watcher_.multi_get(keys({"tutti/lost/1", "tutti/lost/12"}), soon());
  EXPECT_EQ(watcher_.get("tutti/lost", soon()), "1 12");
  auto again = std::make_unique<TcpStore>(rank(1), soon());
  EXPECT_FALSE(is_lost("1"));
  EXPECT_EQ(watcher_.get("tutti/lost", soon()), "12");
  TcpStore other_again(rank(12), soon());
  EXPECT_FALSE(watcher_.check(keys({"tutti/lost"}), soon()));
  connect_and_die(1);
  again.reset();  // says goodbye
  connect_and_die(1);
  watcher_.get("tutti/lost/1", soon());
}

TEST_F(LostRanks, AreAlsoThoseThatEndWithoutHavingJoined) {
  { TcpStore says_goodbye(rank(1), soon()); }
  server_.rank_ended(1, "was here");
  server_.rank_ended(2, "ended early");
  EXPECT_EQ(watcher_.get("tutti/lost/2", soon()), "ended early");
  EXPECT_EQ(watcher_.get("tutti/lost", soon()), "2");
}

/// Between it and the server stands a relay that keeps back the verdict.
TEST_F(LostRanks, AreNotThoseThatStopWaitingToBeLetIn) {
  const Socket relay = listen_on("127.0.0.1", 0);
  const auto client =
      std::async(std::launch::async, [options = client_options(local_endpoint(relay.get()).port(), 1, 2)] {
        text_of(ErrorCode::Timeout, [&] { TcpStore(options, in_ms(2000)); });
      });
  {
    ASSERT_TRUE(poll_until(relay.get(), POLLIN, soon()));
    RawConnection from_client(Socket(::accept(relay.get(), nullptr, nullptr))), to_server(server_.port());
    to_server.send(from_client.receive(kHelloBytes));
    from_client.send(to_server.receive(kChallengeBytes));
    to_server.send(from_client.receive(kProofBytes));
    to_server.receive(kVerdictBytes);
    client.wait();
    std::string goodbye;
    append_store_message(goodbye, static_cast<std::uint8_t>(StoreOp::Goodbye), 1, {});
    to_server.send(from_client.receive(goodbye.size()));
  }
  connect_and_die(12);
  watcher_.get("tutti/lost/12", soon());
  EXPECT_FALSE(is_lost("1"));
}

TEST_F(LostRanks, AreNotThoseWithAnotherConnection) {
  auto stays = std::make_unique<TcpStore>(rank(1), soon());
  connect_and_die(1);
  connect_and_die(-1);
  stays.reset();  // says goodbye
  // The server sees the ends in some order; this client's own round trip to an empty world comes after them all.
  connect_and_die(7);
  watcher_.get("tutti/lost/7", soon());
  EXPECT_FALSE(is_lost("1"));
}

TEST(TcpStoreServer, GoodbyeLeavesNoLostKey) {
  TcpStoreServer server(server_options());
  for (int rank = 0; rank < 4; ++rank) {
    TcpStore store(client_options(server.port(), rank, 4), soon());
    std::thread waiter([&] { store.wait(keys({"go"}), soon()); });
    store.set("go", "", soon());
    waiter.join();
  }
  ASSERT_TRUE(server.wait_until_unused(soon()));
  TcpStore watcher(client_options(server.port()), soon());
  EXPECT_EQ(watcher.num_keys(soon()), 1);
}

TEST(TcpStoreServer, WaitUntilUnusedTellsWhetherClientsRemain) {
  TcpStoreServer server(server_options());
  EXPECT_TRUE(server.wait_until_unused(in_ms(0)));
  auto store = std::make_unique<TcpStore>(client_options(server.port()), soon());
  EXPECT_FALSE(server.wait_until_unused(in_ms(5)));
  store.reset();
  EXPECT_TRUE(server.wait_until_unused(soon()));
}

TEST(TcpStoreServer, TakenPortNamesItsHolder) {
  TcpStoreServer first(server_options());
  TcpStoreServerOptions options = server_options();
  options.port = first.port();
  expect_error(ErrorCode::System,
               {"127.0.0.1:" + std::to_string(first.port()), "Address already in use",
                "held by pid " + std::to_string(::getpid()), "choose another port, or 0"},
               [&] { TcpStoreServer second(options); });
}

TEST(TcpStoreServer, AddressOfAnotherHostIsRefused) {
  TcpStoreServerOptions options = server_options();
  options.bind_address = "192.0.2.1";  // reserved for documentation
  expect_error(ErrorCode::System, {"no interface of this host"}, [&] { TcpStoreServer server(options); });
  options.bind_address = "no-such-host.invalid";
  expect_error(ErrorCode::InvalidArgument, {"no-such-host.invalid"}, [&] { TcpStoreServer server(options); });
}

}  // namespace
}  // namespace tutti::comm
