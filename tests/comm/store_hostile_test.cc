// What strangers and broken clients do to the server, and what the others notice of it: nothing.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <array>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;

PeerIdentity test_identity() {
  PeerIdentity identity;
  identity.job = identity_hash("test job");
  return identity;
}

class HostileStore : public testing::Test {
 protected:
  /// Another client is served all the while.
  void expect_served() {
    bystander_.add("served", 1, soon());
    EXPECT_TRUE(bystander_.check(keys({"served"}), soon()));
  }
  RawConnection authenticated() { return RawConnection(connect_to_store(client_options(server_.port()), soon())); }

  static std::string request(StoreOp op, std::uint32_t id, const StoreBody& body) {
    std::string message;
    append_store_message(message, static_cast<std::uint8_t>(op), id, body);
    return message;
  }
  static StoreHeader receive_header(RawConnection& connection) {
    return decode_store_header(bytes<kStoreHeaderBytes>(connection.receive(kStoreHeaderBytes)));
  }
  static StoreStatus receive_status(RawConnection& connection, std::uint32_t id) {
    const StoreHeader header = receive_header(connection);
    EXPECT_EQ(header.id, id);
    connection.receive(header.body_bytes);
    return static_cast<StoreStatus>(header.code);
  }

  CapturedLog log_;
  TcpStoreServer server_{server_options()};
  TcpStore bystander_{client_options(server_.port()), soon()};
};

TEST_F(HostileStore, AStrangerIsKnownByItsFirstByteAndClosed) {
  RawConnection prober(server_.port());
  prober.send("\x16");  // how TLS begins
  EXPECT_TRUE(prober.closed_by_peer());
  expect_parts(log_.wait_for("it sent 16"), {"store: closed 127.0.0.1:"});
  expect_served();
}

TEST_F(HostileStore, AHelloWhoseLengthsAreAllOnesIsClosed) {
  RawConnection oversized(server_.port());
  oversized.send(std::string("\x89TUTTH\r\n\x01\x00", 10) + std::string(500, '\xff'));
  EXPECT_TRUE(oversized.closed_by_peer());
  log_.wait_for("malformed");
  expect_served();
}

TEST_F(HostileStore, ARecordedHandshakeCannotBeReplayed) {
  expect_parts(replay_handshake(server_.port(), test_identity(), "test secret"), {"another job secret"});
  expect_served();
}

TEST_F(HostileStore, RequestsBeforeTheProofAreNotCarriedOut) {
  const ClientHandshake handshake(test_identity(), "wrong secret");
  RawConnection connection(server_.port());
  connection.send(text(handshake.hello()));
  connection.receive(kChallengeBytes);
  connection.send(std::string(kProofBytes, 'p') + request(StoreOp::Set, 1, {0, {"stolen", "1"}}));
  connection.receive(kVerdictBytes);
  EXPECT_TRUE(connection.closed_by_peer());
  EXPECT_FALSE(bystander_.check(keys({"stolen"}), soon()));
}

TEST_F(HostileStore, BytesThatTrickleInAreAWholeRequestInTheEnd) {
  RawConnection connection = authenticated();
  const std::string message = request(StoreOp::Set, 5, {0, {"slow", "but sure"}});
  for (const char c : message) connection.send({&c, 1});
  EXPECT_EQ(receive_status(connection, 5), StoreStatus::Ok);
  EXPECT_EQ(bystander_.get("slow", soon()), "but sure");
}

TEST_F(HostileStore, ManyRequestsAtOnceAreAnsweredInOrder) {
  RawConnection connection = authenticated();
  std::string messages;
  for (std::uint32_t id = 0; id < 1000; ++id) messages += request(StoreOp::Add, id, {1, {"n"}});
  connection.send(messages);
  for (std::uint32_t id = 0; id < 1000; ++id) EXPECT_EQ(receive_status(connection, id), StoreStatus::Ok);
  EXPECT_EQ(bystander_.get("n", soon()), "1000");
}

TEST_F(HostileStore, OversizedLengthIsAnErrorReplyAndClosesTheConnection) {
  RawConnection connection = authenticated();
  std::string header(kStoreHeaderBytes, '\0');
  header[3] = '\x10';  // 256 MiB
  header[0] = header[4] = 1;
  header[8] = 42;
  connection.send(header);
  EXPECT_EQ(receive_status(connection, 42), StoreStatus::InvalidArgument);
  EXPECT_TRUE(connection.closed_by_peer());
  log_.wait_for("a store request of 268435457 bytes; the limit is 268435456: split the call");
  expect_served();
}

TEST_F(HostileStore, MalformedRequestIsAnErrorReplyAndTheConnectionStaysInStep) {
  RawConnection connection = authenticated();
  std::string broken = request(StoreOp::Set, 1, {0, {"key", "value"}});
  broken[kStoreHeaderBytes + 12] = '\x7f';  // the first string's length
  connection.send(broken + request(static_cast<StoreOp>(200), 2, {}) + request(StoreOp::NumKeys, 3, {}));
  EXPECT_EQ(receive_status(connection, 1), StoreStatus::Protocol);
  EXPECT_EQ(receive_status(connection, 2), StoreStatus::Protocol);
  EXPECT_EQ(receive_status(connection, 3), StoreStatus::Ok);
}

TEST_F(HostileStore, ClientThatNeverReadsStallsOnlyItself) {
  bystander_.set("big", std::string(4'000'000, 'b'), soon());
  RawConnection connection = authenticated();
  std::string messages;
  for (std::uint32_t id = 0; id < 200; ++id) messages += request(StoreOp::Get, id, {0, {"big"}});
  connection.send(messages);
  expect_served();
  for (std::uint32_t id = 0; id < 200; ++id) EXPECT_EQ(receive_status(connection, id), StoreStatus::Ok);
  expect_served();
}

TEST(HostileHandshake, FloodOfStrangersIsCountedRatherThanLogged) {
  CapturedLog log;
  StrangerLog strangers;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i)
    strangers.tell("stranger " + std::to_string(i) + ".", start + std::chrono::milliseconds(i));
  const std::string lines = log.wait_for("stranger 99.; the next ones are only counted");
  expect_parts(lines, {"stranger 0."});
  expect_absent(lines, {"stranger 100."});
  strangers.tell("stranger later", start + StrangerLog::kPeriod);
  expect_parts(log.wait_for("stranger later"), {"900 more connections were shown out"});
}

TEST(HostileHandshake, HalfAHandshakeIsClosedWhenItsTimeIsUp) {
  CapturedLog log;
  TcpStoreServerOptions options = server_options();
  options.handshake_timeout = std::chrono::milliseconds(50);
  TcpStoreServer server(options);
  RawConnection silent(server.port());
  RawConnection half(server.port());
  half.send(text(ClientHandshake(test_identity(), "test secret").hello()).substr(0, 40));
  RawConnection unproven(server.port());
  unproven.send(text(ClientHandshake(test_identity(), "test secret").hello()));
  EXPECT_TRUE(silent.closed_by_peer());
  EXPECT_TRUE(half.closed_by_peer());
  EXPECT_TRUE(unproven.closed_by_peer());
  expect_parts(log.wait_for("89 54 55 54 54 48"), {"did not finish the handshake in time"});
  TcpStore(client_options(server.port()), soon()).set("k", "v", soon());
}

/// A program that listens where the store should be, answers the first bytes that come with `answer`, and hangs up.
class Impostor {
 public:
  explicit Impostor(std::string answer) : listener_(listen_on("127.0.0.1", 0)) {
    port_ = local_endpoint(listener_.get()).port();
    thread_ = std::thread([this, answer = std::move(answer)] { serve(answer); });
  }
  ~Impostor() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::uint16_t port() const { return port_; }

 private:
  void serve(const std::string& answer) {
    while (poll_until(listener_.get(), POLLIN, soon())) {
      Socket peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.get() < 0) return;
      RawConnection connection(std::move(peer));
      connection.receive(kHelloBytes);
      connection.send(answer);
    }
  }
  Socket listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST(HostileServer, ServerOfAnotherProtocolIsNamedByItsFirstBytes) {
  Impostor web("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n....");
  expect_error(ErrorCode::Protocol, {"HTTP/1.1 400", "127.0.0.1:" + std::to_string(web.port())},
               [&] { TcpStore(client_options(web.port()), soon()); });
}

TEST(HostileServer, ServerThatHangsUpEveryTimeIsNotRetriedForEver) {
  Impostor mute("");
  expect_error(ErrorCode::Protocol, {"closed the connection during the handshake"},
               [&] { TcpStore(client_options(mute.port()), soon()); });
}

}  // namespace
}  // namespace tutti::comm
