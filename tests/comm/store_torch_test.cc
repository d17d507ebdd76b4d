// The store for PyTorch's TCPStore clients: its bytes, both generations of the protocol, and clients that mean no good.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tutti/comm/store/torch/torch_request.h>
#include <tutti/comm/store/torch/torch_store_server.h>

#include <memory>

#include "store_test_support.h"

namespace tutti::comm::test {
namespace {

using namespace std::string_literals;

std::string number(std::uint64_t value, std::size_t nbytes = 8) { return torch_number(value, nbytes); }
std::string text(std::string_view value) { return torch_bytes(value); }
std::string query(TorchQuery code, const std::string& body = "") {
  return std::string(1, static_cast<char>(code)) + body;
}
std::string keys_of(std::initializer_list<const char*> names) {
  std::string bytes = number(names.size());
  for (const char* name : names) bytes += text(name);
  return bytes;
}

const std::string kHello = "\x00\xCE\xF7\x85\x3C"s;  // VALIDATE and the magic number 0x3C85F7CE

/// A client of the modern generation. The reply to a ping shows that all before it is done.
class Client : public RawConnection {
 public:
  explicit Client(const TorchStoreServer& server, bool modern = true) : RawConnection(server.port()) {
    if (modern) send(kHello);
  }
  std::string ask(const std::string& bytes, std::size_t reply_bytes) {
    send(bytes);
    return receive(reply_bytes);
  }
  void settle() { EXPECT_EQ(ask(query(TorchQuery::Ping, number(7, 4)), 4), number(7, 4)); }
  void set(std::string_view key, std::string_view value) {
    send(query(TorchQuery::Set, text(key) + text(value)));
    settle();
  }
  std::string get(std::string_view key, std::size_t expected_bytes) {
    return ask(query(TorchQuery::Get, text(key)), 8 + expected_bytes).substr(8);
  }
};

TEST(TorchStore, TheBytesOfEachQueryAndReply) {
  TorchStoreServer server({});
  Client client(server);
  // Written out once, so that encoder and decoder cannot be wrong together.
  client.send("\x01\x02\0\0\0\0\0\0\0/a\x03\0\0\0\0\0\0\0xyz"s);                                         // SET /a xyz
  EXPECT_EQ(client.ask("\x03\x02\0\0\0\0\0\0\0/a"s, 11), "\x03\0\0\0\0\0\0\0xyz"s);                      // GET
  EXPECT_EQ(client.ask("\x04\x02\0\0\0\0\0\0\0/n\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s, 8), number(~1ull));  // ADD -2
  EXPECT_EQ(client.ask("\x0D\x2A\0\0\0"s, 4), "\x2A\0\0\0"s);                                            // PING 42
  EXPECT_EQ(client.ask("\x07"s, 8), number(2));                                                          // GETNUMKEYS
  EXPECT_EQ(client.ask("\x05\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/a"s, 1), "\0"s);                        // CHECK
  EXPECT_EQ(client.get("/n", 2), "-2");
}

TEST(TorchStore, EveryQueryDoesWhatPyTorchsServerDoes) {
  TorchStoreServer server({});
  Client client(server);
  const auto compare_set = [&](const char* key, const char* expected, const char* desired, std::size_t nbytes) {
    return client.ask(query(TorchQuery::CompareSet, text(key) + text(expected) + text(desired)), 8 + nbytes).substr(8);
  };
  EXPECT_EQ(compare_set("c", "old", "new", 3), "old") << "a missing key: what was expected comes back";
  EXPECT_EQ(compare_set("c", "", "first", 5), "first");
  EXPECT_EQ(compare_set("c", "other", "x", 5), "first");
  EXPECT_EQ(compare_set("c", "first", "second", 6), "second");
  client.send(query(TorchQuery::Append, text("c") + text("+")));
  EXPECT_EQ(client.get("c", 7), "second+");
  EXPECT_EQ(client.get("missing", 0), "");
  client.send(query(TorchQuery::MultiSet, number(2) + text("m1") + text("1") + text("m2") + text("")));
  EXPECT_EQ(client.ask(query(TorchQuery::MultiGet, keys_of({"m2", "m1", "none"})), 25),
            text("") + text("1") + text(""));
  EXPECT_EQ(client.ask(query(TorchQuery::Check, keys_of({"m1", "m2"})), 1), "\0"s);
  EXPECT_EQ(client.ask(query(TorchQuery::Check, keys_of({"m1", "none"})), 1), "\1"s);
  EXPECT_EQ(client.ask(query(TorchQuery::DeleteKey, text("m1")), 8), number(1));
  EXPECT_EQ(client.ask(query(TorchQuery::DeleteKey, text("m1")), 8), number(0));
  EXPECT_EQ(client.ask(query(TorchQuery::DeleteKey, text("m2")), 8), number(1));
  EXPECT_EQ(client.ask(query(TorchQuery::ListKeys), 8 + 8 + 1), number(1) + text("c"));
  EXPECT_EQ(client.ask(query(TorchQuery::Check, number(0)), 1), "\0"s) << "no key at all";
}

TEST(TorchStore, EachOperationThatMakesAKeyWakesThoseWhoWaitForIt) {
  TorchStoreServer server({});
  Client waiting(server), other(server);
  const std::string makers[] = {query(TorchQuery::Set, text("k0") + text("")),
                                query(TorchQuery::Append, text("k1") + text("v")),
                                query(TorchQuery::MultiSet, number(1) + text("k2") + text("v"))};
  waiting.send(query(TorchQuery::Wait, keys_of({"k0", "k1", "k2", "k4", "k5"})));
  for (const std::string& maker : makers) other.send(maker);
  EXPECT_EQ(other.ask(query(TorchQuery::Add, text("k4") + number(1)), 8), number(1));
  waiting.send(query(TorchQuery::Ping, number(9, 4)));
  EXPECT_EQ(waiting.receive(4), number(9, 4)) << "still waits for k5, so the ping is answered first";
  EXPECT_EQ(other.ask(query(TorchQuery::CompareSet, text("k5") + text("") + text("v")), 9), text("v"));
  EXPECT_EQ(waiting.receive(1), "\0"s);
}

TEST(TorchStore, AWaitCanBeCancelled) {
  TorchStoreServer server({});
  Client client(server), other(server);
  EXPECT_EQ(client.ask(query(TorchQuery::Wait, keys_of({"k"})) + query(TorchQuery::CancelWait), 1), "\1"s);
  other.set("k", "v");
  EXPECT_EQ(client.get("k", 1), "v") << "the wait is not answered any more";
}

TEST(TorchStore, ABarrierLetsAllGoWhenTheLastHasCome) {
  TorchStoreServer server({});
  Client a(server), b(server), c(server);
  a.send(query(TorchQuery::Barrier, text("b") + number(3)));
  b.send(query(TorchQuery::Barrier, text("b") + number(3)));
  a.settle();
  b.settle();
  EXPECT_EQ(c.ask(query(TorchQuery::Barrier, text("b") + number(3)), 1), "\0"s);
  EXPECT_EQ(a.receive(1) + b.receive(1), "\0\0"s);
  EXPECT_EQ(c.ask(query(TorchQuery::ListKeys), 8 + 8 + 1), number(1) + text("b")) << "nothing else is left";
}

TEST(TorchStore, TheLegacyGenerationHasOtherCodesAndNoValidate) {
  TorchStoreServer server({});
  Client client(server, false);
  client.send("\0"s + text("k") + text("v"));                          // SET, which begins as VALIDATE does
  EXPECT_EQ(client.ask("\2"s + text("k"), 9), text("v"));              // GET
  EXPECT_EQ(client.ask("\3"s + text("n") + number(5), 8), number(5));  // ADD
  EXPECT_EQ(client.ask("\4"s + keys_of({"k", "n"}), 1), "\0"s);        // CHECK
  EXPECT_EQ(client.ask("\1"s + text("k") + text("v") + text("w"), 9), text("w"));
  EXPECT_EQ(client.ask("\6"s, 8), number(2));
  EXPECT_EQ(client.ask("\x08"s + text("k"), 8), number(1));
  // A wait that it gave up must not be answered later, where it would be taken for another reply.
  client.send("\5"s + keys_of({"late"}));
  EXPECT_EQ(client.ask("\6"s, 8), number(1));
  Client(server).set("late", "");
  EXPECT_EQ(client.ask("\6"s, 8), number(2));
  Client second(server, false);
  EXPECT_EQ(second.ask("\3"s + text("n") + number(1), 8), number(6)) << "the first query is not 0";
}

TEST(TorchStore, RequestsMayComeByteByByte) {
  TorchRequestReader reader;
  const std::string bytes =
      kHello + query(TorchQuery::MultiSet, number(2) + text("a") + text("") + text("b") + text("c"));
  std::size_t taken = 0;
  for (std::size_t come = 0; come <= bytes.size(); ++come) {
    EXPECT_FALSE(reader.take());
    taken += reader.feed(std::string_view(bytes).substr(taken, come - taken));
  }
  EXPECT_EQ(taken, bytes.size());
  const auto request = reader.take();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->query, TorchQuery::MultiSet);
  EXPECT_EQ(request->strings, (std::vector<std::string>{"a", "", "b", "c"}));
}

TEST(TorchStore, WhatNoClientSendsClosesItsConnectionOnlyAndIsNamed) {
  TorchStoreServer server({});
  Client well(server);
  well.set("k", "x");
  const struct {
    std::string bytes, said;
  } cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", "has the code"},
      {kHello + "\x13"s, "has the code"},
      {"\x07"s + text("k"), "WATCH_KEY"},
      {kHello + "\x0E"s + text("q") + text("v"), "queues (code 14, QUEUE_PUSH and the like) are not offered here"},
      {kHello + query(TorchQuery::Validate, number(1, 4)), "VALIDATE with the number"},
      {kHello + query(TorchQuery::Get, number(8193)), "a key of 8193 bytes; the limit is 8192"},
      {kHello + query(TorchQuery::Set, text("k") + number(~0ull)), "a value of 18446744073709551615 bytes"},
      {kHello + query(TorchQuery::Wait, number(1 << 20)), "1048576 keys in one query; the limit is 131072"},
      {kHello + query(TorchQuery::Add, text("k") + number(1)), "is no decimal 64-bit number"},
  };
  for (const auto& c : cases) {
    CapturedLog log;
    RawConnection stranger(server.port());
    stranger.send(c.bytes);
    EXPECT_TRUE(stranger.closed_by_peer()) << c.said;
    expect_parts(log.wait_for(c.said), {"store for PyTorch: closed 127.0.0.1:"});
  }
  EXPECT_EQ(well.get("k", 1), "x") << "the others were served, and nothing has changed";
}

TEST(TorchStore, AClientThatDoesNotReadIsNotListenedToAndHarmsNobody) {
  TorchStoreServer server({});
  Client well(server), greedy(server);
  const std::string large(1 << 20, 'x');
  well.set("large", large);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += query(TorchQuery::Get, text("large"));  // 2 GB of replies
  greedy.send(many);
  EXPECT_EQ(well.get("large", large.size()), large);
  EXPECT_EQ(greedy.receive(8 + large.size()), text(large));
  greedy.close();
  well.settle();
}

TEST(TorchStore, WhatAllHoldTogetherHasALimit) {
  CapturedLog log;
  TorchStoreServer server({.max_bytes = 1000});
  Client client(server), other(server);
  client.set("a", std::string(500, 'x'));
  other.send(query(TorchQuery::Set, text("b") + text(std::string(500, 'x'))));
  EXPECT_TRUE(other.closed_by_peer());
  log.wait_for("may hold 1000 at most");
  EXPECT_EQ(client.ask(query(TorchQuery::DeleteKey, text("a")), 8), number(1));
  client.set("c", std::string(500, 'x'));
  Client half(server);
  half.send(query(TorchQuery::Set, text("d") + number(5000) + std::string(1200, 'x')));
  EXPECT_TRUE(half.closed_by_peer());
  log.wait_for("too much is on its way");
}

TEST(TorchStore, ClientsThatGoAwayLeaveNothingBehind) {
  const std::size_t before = open_descriptors();
  {
    TorchStoreServer server({});
    Client stays(server);
    for (int i = 0; i < 50; ++i) {
      Client client(server);
      client.send(query(TorchQuery::Wait, keys_of({"never"})));
      client.settle();
    }
    const Deadline deadline = soon();
    while (server.client_count() != 1 && !deadline.expired()) stays.settle();
    EXPECT_EQ(server.client_count(), 1U);
    stays.set("never", "");
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TorchStore, ALowSoftLimitIsRaisedAndNoClientDropped) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{32, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  TorchStoreServer server({});
  Client(server).settle();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace tutti::comm::test
