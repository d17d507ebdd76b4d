// What --encrypt promises of the connections between ranks: nothing readable on the wire, nothing altered unnoticed,
// and no way from encryption to none, whoever asks for it.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <asio/error.hpp>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "recording_proxy.h"
#include "tcp_test.h"

namespace tutti::comm {
namespace {

using namespace test;
using std::chrono::milliseconds;
using std::chrono::seconds;
using tutti::test::Net;
using tutti::test::run_ranks;
using tutti::test::Watchdog;

const std::string kPlaintext = "a text that nobody else may read, of more than one word";

TcpTransportOptions options_of(int rank, bool encrypt = true) { return tcp_options(rank, 2, encrypt); }

/// Rank 0 listens, rank 1 connects to it by way of a proxy, all on one thread.
class Wire : public testing::Test {
 protected:
  void meet(const TcpTransportOptions& server, const TcpTransportOptions& client) {
    server_.emplace(server);
    proxy_.emplace(port_of(*server_));
    client_.emplace(client);
    server_->set_peers({{}, {"127.0.0.1:1", "client's host", std::to_string(::getpid())}});
    client_->set_peers({{proxy_->endpoint(), "server's host", "10"}, {}});
    up_ = &client_->collective(0);
    down_ = &server_->collective(1);
  }

  static FrameHeader header_of(const std::string& payload) {
    return {.fingerprint = {.seq = 3, .count = payload.size()}, .nbytes = payload.size()};
  }

  /// Sends a frame with `payload`, and returns what comes out at the other end.
  std::string pass(Link& from, Link& to, const std::string& payload) {
    Outgoing frame{.header = header_of(payload), .payload = payload.data()};
    from.post(frame);
    std::string came(payload.size(), '\0');
    std::size_t have = 0;
    const Deadline deadline = soon();
    while (!(frame.done() && have == came.size()) && !deadline.expired()) {
      server_->service();
      from.flush();
      from.peek();
      if (to.peek()) have += to.read(came.data() + have, came.size() - have);
    }
    EXPECT_TRUE(frame.done());
    return came;
  }

  /// The error that a link ends with when a frame is sent from rank 0 to rank 1.
  static Error end_of(Link& link, Transport& transport) {
    return error_of([&] {
      transport.service();
      link.flush();
      std::vector<std::byte> bytes(1 << 16);
      const FrameHeader* const header = link.peek();
      const std::uint64_t nbytes = header ? header->nbytes : 0;
      for (std::uint64_t have = 0; have < nbytes;)
        have += link.read(bytes.data(), std::min<std::size_t>(bytes.size(), nbytes - have));
    });
  }

  Watchdog watchdog_{seconds(60)};
  CapturedLog log_;
  std::optional<TcpTransport> server_;
  std::optional<RecordingProxy> proxy_;
  std::optional<TcpTransport> client_;
  Link* up_ = nullptr;
  Link* down_ = nullptr;
};

TEST_F(Wire, NobodyReadsThePayloadOrWhoIsWho) {
  meet(options_of(0), options_of(1));
  EXPECT_EQ(pass(*up_, *down_, kPlaintext), kPlaintext);
  EXPECT_EQ(pass(*down_, *up_, kPlaintext), kPlaintext);
  for (const std::string& wire : {proxy_->from_clients(), proxy_->from_servers()}) {
    EXPECT_GT(wire.size(), kPlaintext.size());
    // With the magic of the handshake and that of a frame.
    expect_absent(wire, {kPlaintext.substr(0, 8), "TUTT", std::string("uT\x01\x01", 4), kTcpSecret});
  }
  expect_parts(proxy_->from_clients(), {tls_identity("a job")});  // the documented exception
}

TEST_F(Wire, WithoutEncryptionTheSameLookFindsIt) {
  meet(options_of(0, false), options_of(1, false));
  EXPECT_EQ(pass(*up_, *down_, kPlaintext), kPlaintext);
  expect_parts(proxy_->from_clients(), {kPlaintext, "TUTT"});
}

TEST_F(Wire, ABitThatFlipsIsAnErrorThatNamesTheRank) {
  meet(options_of(0), options_of(1));
  EXPECT_EQ(pass(*up_, *down_, "hello"), "hello");
  proxy_->flip_a_bit_of_the_server();
  Outgoing frame{.header = header_of(kPlaintext), .payload = kPlaintext.data()};
  down_->post(frame);
  ASSERT_TRUE(down_->flush());
  const Error error = end_of(*up_, *client_);
  EXPECT_EQ(error.code(), ErrorCode::Protocol) << error.what();
  expect_parts(error.what(), {"rank 0 (server's host, pid 10, ", "altered on the way"});
  const Error sender = end_of(*down_, *server_);
  EXPECT_EQ(sender.code(), ErrorCode::Protocol) << sender.what();
  expect_parts(sender.what(), {"rank 1 (client's host, pid " + std::to_string(::getpid()) + ", "});
}

TEST_F(Wire, AStreamThatIsCutInGoodOrderIsALostPeer) {
  meet(options_of(0), options_of(1));
  EXPECT_EQ(pass(*up_, *down_, "hello"), "hello");
  proxy_->cut_what_the_server_sends();
  const std::string payload(1000, 'x');
  Outgoing frame{.header = header_of(payload), .payload = payload.data()};
  down_->post(frame);
  ASSERT_TRUE(frame.done());
  const Error error = end_of(*up_, *client_);
  EXPECT_EQ(error.code(), ErrorCode::PeerLost) << error.what();
  expect_parts(error.what(), {"lost rank 0 (server's host, pid 10, "});
}

TEST_F(Wire, ARecordedConnectionCannotBeReplayed) {
  meet(options_of(0), options_of(1));
  EXPECT_EQ(pass(*up_, *down_, kPlaintext), kPlaintext);
  const std::string recorded = proxy_->from_clients();
  TcpTransport again(options_of(0));
  again.set_peers({{}, {"127.0.0.1:1", "client's host", std::to_string(::getpid())}});
  RawConnection attacker(port_of(again));
  attacker.send(recorded);
  const Deadline deadline = soon();
  std::atomic<bool> done{false};
  std::thread service([&] {
    while (!done && !deadline.expired()) {
      again.wait({}, milliseconds(10));
      again.service();
      EXPECT_EQ(again.collective(1).peek(), nullptr);
    }
  });
  EXPECT_TRUE(attacker.closed_by_peer());
  const std::string found = log_.wait_for("refused a connection from");
  done = true;
  again.wake();
  service.join();
  expect_parts(found, {"altered on the way"});
}

/// The error that rank 1 ends with when it connects to rank 0.
Error connect_error(const TcpTransportOptions& server, const TcpTransportOptions& client) {
  TcpTransport listening(server), connecting(client);
  connecting.set_peers({{listening.endpoint(), "server's host", "10"}, {}});
  const Error error = error_of([&] {
    connecting.collective(0).peek();
    listening.service();
  });
  listening.service();
  EXPECT_EQ(listening.collective(1).peek(), nullptr);
  return error;
}

TEST(Encryption, AnotherSecretNamesThePeerAndTheVariable) {
  CapturedLog log;
  TcpTransportOptions client = options_of(1);
  client.job_secret = "another secret";
  const Error error = connect_error(options_of(0), client);
  EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
  expect_parts(error.what(), {"rank 0 (server's host, pid 10, ", "another job secret; compare TUTTI_JOB_SECRET"});
  log.wait_for("the client has another job secret");
}

TEST(Encryption, ARankWithoutItAndOneWithItRefuseEachOther) {
  for (const bool encrypts : {true, false}) {
    CapturedLog log;
    const Error error = connect_error(options_of(0, encrypts), options_of(1, !encrypts));
    EXPECT_EQ(error.code(), ErrorCode::PeerLost) << error.what();
    expect_parts(error.what(), {"rank 0 (server's host, pid 10, "});
    log.wait_for(encrypts ? "one without --encrypt" : "not a Tutti peer: its first bytes are 16 03");
  }
}

TEST(Encryption, StrangersAreShownOutAndTheRanksStillMeet) {
  Watchdog watchdog(seconds(60));
  CapturedLog log;
  TcpTransport listening(options_of(0)), connecting(options_of(1));
  connecting.set_peers({{listening.endpoint(), "server's host", "10"}, {}});
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x00\x05hello", 10), std::string("\x16"),
        std::string("\x16\xff\xff\xff\xff\xff\xff", 7), std::string()}) {
    RawConnection stranger(port_of(listening));
    stranger.send(bytes);
    stranger.close();
    listening.service();
  }
  Outgoing frame{.header = {.fingerprint = {.seq = 3}}};
  connecting.collective(0).post(frame);
  const Deadline deadline = soon();
  while (!listening.collective(1).peek() && !deadline.expired()) {
    listening.service();
    connecting.collective(0).flush();
  }
  ASSERT_NE(listening.collective(1).peek(), nullptr);
  EXPECT_EQ(listening.collective(1).peek()->fingerprint.seq, 3u);
}

/// As a client that has several addresses to try leaves all but one; another secret would be told of by an alert.
TEST(Encryption, AClientThatLeavesDuringTheTlsHandshakeIsNoWarning) {
  CapturedLog log;
  TcpTransport listening(options_of(0));
  {
    std::string error;
    const auto endpoint = resolve("127.0.0.1", port_of(listening), ResolveFor::Connecting, error).front();
    const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(socket.get(), endpoint.address(), endpoint.length), 0);
    const TlsContext context(kTcpSecret, "a job");
    EXPECT_FALSE(TlsSession(context, socket.get(), TlsSession::Side::Connecting).handshake());
    listening.service();
  }
  const Deadline deadline = soon();
  while (log.quiet_lines().empty() && !deadline.expired()) listening.service();
  expect_parts(log.quiet_lines(), {"the TLS handshake broke off"});
  EXPECT_EQ(log.lines(), "");
}

TEST(Encryption, AConnectionThatIsLedToAnotherRankIsRefused) {
  CapturedLog log;
  TcpTransport rank0(tcp_options(0, 3, true)), rank2(tcp_options(2, 3, true));
  rank2.set_peers({{"127.0.0.1:1", "a host", "10"}, {rank0.endpoint(), "another host", "11"}, {}});
  const Error error = error_of([&] {
    rank2.collective(1).peek();
    rank0.service();
  });
  EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
  expect_parts(error.what(), {"rank 1 (another host, pid 11, ", "rank 2 wants to reach rank 1, but this is rank 0"});
}

TEST(Encryption, AWaitSeesWhatTlsHasReadAlreadyButNotForEver) {
  Watchdog watchdog(seconds(60));
  const auto ranks = tutti::test::make_transports(Net::Tls, 2);
  Link& out = ranks[0]->collective(1);
  Link& in = ranks[1]->collective(0);
  const std::string payload(60'000, 'x');  // more than a link's own buffer, less than TLS takes at once
  Outgoing frame{.header = {.fingerprint = {.seq = 3}, .nbytes = payload.size()}, .payload = payload.data()};
  out.post(frame);
  const Deadline deadline = soon();
  while (!frame.done() && !deadline.expired()) {
    ranks[0]->service();
    ranks[1]->service();
    in.peek();
    out.flush();
  }
  ASSERT_TRUE(frame.done());
  while (!in.peek() && !deadline.expired()) std::this_thread::yield();
  Link* const links[] = {&in};
  const auto start = std::chrono::steady_clock::now();
  ranks[1]->wait(links, seconds(20));  // the socket has nothing more to give
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  const auto ignoring = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) ranks[1]->wait(links, milliseconds(20));
  EXPECT_GE(std::chrono::steady_clock::now() - ignoring, milliseconds(40)) << "it never slept";
  std::string came(payload.size(), '\0');
  std::size_t have = 0;
  while (have < came.size() && !deadline.expired()) have += in.read(came.data() + have, came.size() - have);
  EXPECT_EQ(came, payload);
}

/// That groups do the same as over plain TCP: conformance_test.cc and subgroup_test.cc.
TEST(Encryption, IsToldInTheNameOfTheTransport) {
  for (const Net net : {Net::Tls, Net::MixedTls})
    run_ranks(net, 4, [](ProcessGroup& group) { expect_parts(std::string(group.transport_name()), {"tcp+tls"}); });
}

}  // namespace
}  // namespace tutti::comm
