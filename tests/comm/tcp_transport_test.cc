// What comes to a rank's port, and what a rank finds at another's: strangers get nowhere, are logged once, and disturb
// nobody; a failed connection names the peer.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <thread>

#include "tcp_test.h"

namespace tutti::comm {
namespace {

using namespace test;
using std::chrono::milliseconds;
using std::chrono::seconds;
using tutti::test::Watchdog;

constexpr int kWorld = 3;

TcpTransportOptions options_of(int rank, milliseconds handshake_limit = seconds(30)) {
  TcpTransportOptions options = tcp_options(rank, kWorld);
  options.handshake_limit = handshake_limit;
  options.group_limit = milliseconds(100);
  return options;
}

/// A transport that a thread of its own serves, as a waiting rank would.
class Served {
 public:
  explicit Served(const TcpTransportOptions& options, std::shared_ptr<TcpListener> listener = nullptr)
      : transport_(options, std::move(listener)), server_([this] {
          while (!stopping_) {
            transport_.wait({}, milliseconds(50));
            transport_.service();
          }
        }) {}
  ~Served() {
    stopping_ = true;
    transport_.wake();
    server_.join();
  }

  TcpTransport& operator*() { return transport_; }
  TcpTransport* operator->() { return &transport_; }

 private:
  TcpTransport transport_;
  std::atomic<bool> stopping_{false};
  std::thread server_;
};

PeerIdentity identity_of(int rank, ConnectionKind kind = ConnectionKind::Collective) {
  return {.kind = kind,
          .rank = rank,
          .world_size = kWorld,
          .pid = 4711,
          .job = identity_hash("a job"),
          .group = identity_hash("a group")};
}

std::string shake_hands(RawConnection& connection, const PeerIdentity& self) {
  return test::shake_hands(connection, self, kTcpSecret);
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct Stranger {
  const char* name;
  std::function<void(RawConnection& connection)> act;
  const char* logged;
};

class Port : public testing::Test {
 protected:
  /// Rank 2 connects to rank 1, and a frame goes there and comes back.
  void expect_that_ranks_still_meet() {
    TcpTransport other(options_of(2));
    other.set_peers({{}, {victim_->endpoint(), "host", "1"}, {}});
    Outgoing frame{.header = {.fingerprint = {.seq = 3}}};
    other.collective(1).post(frame);
    const Deadline deadline = soon();
    while (!frame.done() && !deadline.expired()) {
      other.wait(std::vector<Link*>{&other.collective(1)}, milliseconds(10));
      other.collective(1).flush();
    }
    ASSERT_TRUE(frame.done());
    const FrameHeader* header = nullptr;
    while (!(header = victim_->collective(2).peek()) && !deadline.expired()) std::this_thread::yield();
    ASSERT_NE(header, nullptr);
    EXPECT_EQ(header->fingerprint.seq, 3u);
  }

  Watchdog watchdog_{seconds(60)};
  CapturedLog log_;
  Served victim_{options_of(1)};
};

class Strangers : public Port, public testing::WithParamInterface<Stranger> {};

TEST_P(Strangers, AreClosedAndLoggedOnceAndDisturbNobody) {
  RawConnection half_open(port_of(*victim_));
  half_open.send("\x89TUT");  // and not a byte more
  RawConnection connection(port_of(*victim_));
  GetParam().act(connection);
  EXPECT_TRUE(connection.closed_by_peer());
  log_.wait_for(GetParam().logged);
  expect_that_ranks_still_meet();
  const std::string lines = log_.wait_for(GetParam().logged);
  EXPECT_EQ(occurrences(lines, "\n"), 1) << lines;
}

void expect_verdict(RawConnection& connection, const PeerIdentity& self, const std::string& verdict) {
  expect_parts(shake_hands(connection, self), {verdict});
}

std::vector<Stranger> strangers() {
  const auto claim = [](PeerIdentity self, const char* verdict) {
    return [self, verdict](RawConnection& connection) { expect_verdict(connection, self, verdict); };
  };
  PeerIdentity other_job = identity_of(2), other_world = identity_of(2), other_group = identity_of(2);
  other_job.job = identity_hash("another job");
  other_world.world_size = kWorld + 1;
  other_group.group = identity_hash("another group");
  return {
      {"Browser", [](RawConnection& c) { c.send("GET / HTTP/1.1\r\n\r\n"); }, "47 45 54 20"},
      {"OneByte", [](RawConnection& c) { c.send("x"); }, "not a Tutti peer: its first bytes are 78"},
      {"ManyBytes", [](RawConnection& c) { c.send(std::string(300, 'z')); }, "not a Tutti peer"},
      {"HelloOfAnotherVersion",
       [](RawConnection& c) {
         std::string hello = text(ClientHandshake(identity_of(2), kTcpSecret).hello());
         hello[8] = 2;
         c.send(hello);
       },
       "handshake version 2"},
      {"HelloWhoseLengthsAreAllOnes",
       [](RawConnection& c) { c.send(std::string("\x89TUTTH\r\n\x01\x00", 10) + std::string(500, '\xff')); },
       "malformed"},
      {"WrongSecret",
       [](RawConnection& c) {
         const ClientHandshake handshake(identity_of(2), "another secret");
         c.send(text(handshake.hello()));
         const auto challenge = bytes<kChallengeBytes>(c.receive(kChallengeBytes));
         EXPECT_THROW(handshake.answer(challenge), Error);
         c.send(std::string(kProofBytes, 'p'));
         c.receive(kVerdictBytes);
       },
       "rank 2 has another job secret"},
      {"WrongJob", claim(other_job, "another job's process"), "another job's process"},
      {"WrongWorldSize", claim(other_world, "world size 3 here, 4 at rank 2"), "world size 3 here, 4 at rank 2"},
      {"WrongGroup", claim(other_group, "was not formed here within 100 ms"), "was not formed here within 100 ms"},
      {"StoreClient", claim(identity_of(2, ConnectionKind::Store), "connection kind"), "connection kind"},
      {"RankOutOfRange", claim(identity_of(3), "rank 3 does not exist"), "rank 3 does not exist"},
      {"LowerRankOnTheCollectiveLane", claim(identity_of(0), "accepted"), "claims to be rank 0 of 3"},
      {"OurOwnRank", claim(identity_of(1), "accepted"), "claims to be rank 1 of 3"},
      {"OurOwnRankWithAMessage", claim(identity_of(1, ConnectionKind::Messages), "accepted"),
       "claims to be rank 1 of 3"},
      {"NoRank", claim(identity_of(-1), "accepted"), "claims to be rank -1 of 3"},
  };
}

std::string stranger_name(const testing::TestParamInfo<Stranger>& stranger) { return stranger.param.name; }

INSTANTIATE_TEST_SUITE_P(Ports, Strangers, testing::ValuesIn(strangers()), stranger_name);

TEST_F(Port, ASecondConnectionOfARankIsClosedAndTheFirstGoesOn) {
  RawConnection first(port_of(*victim_));
  EXPECT_EQ(shake_hands(first, identity_of(2)), "accepted");
  Link& link = victim_->collective(2);
  const FrameHeader sent{.fingerprint = {.seq = 5}};
  first.send(text(encode(sent)));
  const Deadline deadline = soon();
  while (!link.peek() && !deadline.expired()) std::this_thread::yield();
  RawConnection second(port_of(*victim_));
  EXPECT_EQ(shake_hands(second, identity_of(2)), "accepted");
  EXPECT_TRUE(second.closed_by_peer());
  expect_parts(log_.wait_for("second connection"), {"claims to be rank 2"});
  ASSERT_NE(link.peek(), nullptr);
  link.read(nullptr, 0);
  first.send(text(encode({.fingerprint = {.seq = 6}})));
  while (!link.peek() && !deadline.expired()) std::this_thread::yield();
  ASSERT_NE(link.peek(), nullptr);
  EXPECT_EQ(link.peek()->fingerprint.seq, 6u);
}

TEST_F(Port, ARecordedHandshakeCannotBeReplayed) {
  const PeerIdentity guest = identity_of(0, ConnectionKind::Messages);
  expect_parts(replay_handshake(port_of(*victim_), guest, kTcpSecret), {"another job secret"});
  expect_that_ranks_still_meet();
}

TEST_F(Port, BytesThatAreNoFrameNameThePeerAndAreQuoted) {
  victim_->set_peers({{}, {}, {"127.0.0.1:9", "somewhere", "4711"}});
  RawConnection peer(port_of(*victim_));
  EXPECT_EQ(shake_hands(peer, identity_of(2)), "accepted");
  peer.send(std::string(kFrameHeaderBytes, 'Q'));
  const Error error = error_of([&] { victim_->collective(2).peek(); });
  EXPECT_EQ(error.code(), ErrorCode::Protocol);
  expect_parts(error.what(), {"rank 2 (somewhere, pid 4711, 127.0.0.1:9)", "51 51 51"});
}

TEST_F(Port, SilentConnectionsInAnyNumberDelayNobodyForLong) {
  std::list<RawConnection> silent;
  for (int i = 0; i < 300; ++i) silent.emplace_back(port_of(*victim_));  // more than there is room for
  expect_that_ranks_still_meet();
  expect_parts(log_.wait_for("full; closed "), {"connections that had not finished the handshake, the oldest"});
}

TEST_F(Port, StrangersInAnyNumberFillNoLog) {
  for (int i = 0; i < 150; ++i) {
    RawConnection stranger(port_of(*victim_));
    stranger.send("x");
    EXPECT_TRUE(stranger.closed_by_peer());
  }
  EXPECT_EQ(occurrences(log_.wait_for("only counted"), "not a Tutti peer"), StrangerLog::kLinesPerPeriod);
}

TEST_F(Port, AnotherProcessThatClaimsARanksNumberIsClosed) {
  victim_->set_peers({{}, {}, {"127.0.0.1:9", "somewhere", std::to_string(::getpid())}});
  for (const ConnectionKind kind : {ConnectionKind::Collective, ConnectionKind::Messages, ConnectionKind::Answers}) {
    RawConnection thief(port_of(*victim_));
    expect_parts(shake_hands(thief, identity_of(2, kind)), {"accepted"});  // of process 4711
    EXPECT_TRUE(thief.closed_by_peer());
  }
  log_.wait_for("its process is 4711, but rank 2 (somewhere, pid");
}

TEST(TcpPort, AHalfHandshakeIsDroppedInTimeAndLoggedOnce) {
  Watchdog watchdog;
  CapturedLog log;
  Served victim(options_of(1, milliseconds(300)));
  RawConnection silent(port_of(*victim));
  RawConnection half(port_of(*victim));
  half.send(text(ClientHandshake(identity_of(2), kTcpSecret).hello()).substr(0, 20));
  EXPECT_TRUE(half.closed_by_peer());
  EXPECT_TRUE(silent.closed_by_peer());
  const std::string lines = log.wait_for("no complete handshake within 300 ms");
  EXPECT_EQ(occurrences(lines, "no complete handshake"), 2) << lines;
}

TEST(TcpPort, WhoeverLeavesWithoutAWordIsNotWorthAWarning) {
  Watchdog watchdog;
  CapturedLog log;
  Served victim(options_of(1));
  RawConnection(port_of(*victim)).close();
  RawConnection stranger(port_of(*victim));
  stranger.send("x");
  EXPECT_TRUE(stranger.closed_by_peer());
  EXPECT_EQ(occurrences(log.wait_for("first bytes are 78"), "\n"), 1);
}

TEST(TcpPort, CloseEndsUnfinishedConnectionsAndThePort) {
  Watchdog watchdog;
  CapturedLog log;
  Served victim(options_of(1));
  const std::uint16_t port = port_of(*victim);
  RawConnection half(port);
  const ClientHandshake handshake(identity_of(2), kTcpSecret);
  half.send(text(handshake.hello()));
  half.receive(kChallengeBytes);
  victim->close();
  EXPECT_TRUE(half.closed_by_peer());
  EXPECT_THROW(RawConnection{port}, Error);
}

/// One port for several groups, of which "a group" is there and served from the beginning.
class SharedPort : public testing::Test {
 protected:
  static TcpTransportOptions options_of_group(const std::string& group) {
    TcpTransportOptions options = options_of(1);
    options.group = group;
    options.group_limit = std::chrono::hours(1);
    return options;
  }
  static PeerIdentity comes_for(const std::string& group) {
    PeerIdentity self = identity_of(2);
    self.group = identity_hash(group);
    return self;
  }
  /// Sends all that a client has to send, and makes sure that the listener has seen it.
  ClientHandshake prove(RawConnection& connection, const std::string& group) {
    ClientHandshake handshake(comes_for(group), kTcpSecret);
    connection.send(text(handshake.hello()));
    connection.send(text(handshake.answer(bytes<kChallengeBytes>(connection.receive(kChallengeBytes)))));
    RawConnection later(port_of(*first_));
    EXPECT_EQ(shake_hands(later, identity_of(0, ConnectionKind::Messages)), "accepted");
    return handshake;
  }

  Watchdog watchdog_;
  CapturedLog log_;
  const std::shared_ptr<TcpListener> listener_ =
      std::make_shared<TcpListener>(listener_options(options_of_group("a group")));
  Served first_{options_of_group("a group"), listener_};
};

TEST_F(SharedPort, AConnectionForALaterGroupWaitsForIt) {
  RawConnection connection(port_of(*first_));
  const ClientHandshake handshake = prove(connection, "a later group");
  TcpTransport later(options_of_group("a later group"), listener_);
  EXPECT_EQ(later.endpoint(), first_->endpoint());
  handshake.finish(bytes<kVerdictBytes>(connection.receive(kVerdictBytes)));  // throws if refused
  connection.send(text(encode({.fingerprint = {.seq = 9}})));
  const Deadline deadline = soon();
  while (!later.collective(2).peek() && !deadline.expired()) std::this_thread::yield();
  ASSERT_NE(later.collective(2).peek(), nullptr);
  EXPECT_EQ(later.collective(2).peek()->fingerprint.seq, 9u);
  EXPECT_EQ(first_->collective(2).peek(), nullptr);
}

TEST_F(SharedPort, AConnectionForAGroupThatIsOverIsClosed) {
  { TcpTransport over(options_of_group("over"), listener_); }
  RawConnection connection(port_of(*first_));
  const ClientHandshake handshake(comes_for("over"), kTcpSecret);
  connection.send(text(handshake.hello()));
  connection.send(text(handshake.answer(bytes<kChallengeBytes>(connection.receive(kChallengeBytes)))));
  EXPECT_TRUE(connection.closed_by_peer());
  TcpTransport again(options_of_group("over"), listener_);  // the same name once more
  RawConnection next(port_of(*first_));
  EXPECT_EQ(shake_hands(next, comes_for("over")), "accepted");
}

TEST_F(SharedPort, WhoeverGivesUpWaitingLeavesNoDescriptor) {
  RawConnection connection(port_of(*first_));
  prove(connection, "never");
  const std::size_t with_both_ends = open_descriptors();
  connection.close();
  const Deadline deadline = soon();
  while (open_descriptors() + 2 > with_both_ends && !deadline.expired()) std::this_thread::yield();
  EXPECT_LE(open_descriptors() + 2, with_both_ends);
}

TEST_F(SharedPort, TwoGroupsOfOneNameAreRefused) {
  expect_error(ErrorCode::InvalidArgument, {"two groups with the hash"},
               [&] { TcpTransport twin(options_of_group("a group"), listener_); });
  RawConnection connection(port_of(*first_));
  EXPECT_EQ(shake_hands(connection, identity_of(2)), "accepted");
}

TEST(TcpPort, FailedConnectionsLeaveNoDescriptors) {
  Watchdog watchdog;
  CapturedLog log;
  Served victim(options_of(1));
  const auto fail_once = [&](int i) {
    RawConnection connection(port_of(*victim));
    if (i % 4 == 0) connection.send("garbage");
    if (i % 4 == 1) expect_verdict(connection, identity_of(7), "rank 7 does not exist");
    if (i % 4 == 2) expect_verdict(connection, identity_of(0), "accepted");
    if (i % 4 == 3) {
      connection.send("\x89TUT");
      return connection.close();
    }
    EXPECT_TRUE(connection.closed_by_peer());
  };
  const auto wait_for_descriptors = [](std::size_t count) {
    const Deadline deadline = soon();
    while (open_descriptors() > count && !deadline.expired()) std::this_thread::yield();
    return open_descriptors();
  };
  for (int i = 0; i < 4; ++i) fail_once(i);  // so that what is made on first use is there
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i) fail_once(i);
  EXPECT_LE(wait_for_descriptors(before), before);
}

TEST(TcpPort, OutOfDescriptorsItSaysSoOnceASecondAndRecovers) {
  Watchdog watchdog;
  CapturedLog log;
  Served victim(options_of(1));
  RawConnection first(port_of(*victim));
  first.send("x");
  EXPECT_TRUE(first.closed_by_peer());  // so that the serving thread has all that it needs
  first.close();
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit one_more{static_cast<rlim_t>(lowest_free) + 1, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &one_more);
  RawConnection stranger(port_of(*victim));  // takes the last descriptor; there is none to accept it
  const std::string lines = log.wait_for("cannot accept a connection just now: Too many open files");
  ::setrlimit(RLIMIT_NOFILE, &before);
  stranger.send("y");
  EXPECT_TRUE(stranger.closed_by_peer());
  EXPECT_EQ(occurrences(log.wait_for("first bytes are 79"), "cannot accept"), 1) << lines;
}

/// The error of a link of rank 2 to a rank 1 that is reached at `endpoint`.
Error connect_error(const std::string& endpoint, const TcpTransportOptions& options = options_of(2)) {
  TcpTransport transport(options);
  transport.set_peers({{}, {endpoint, "somewhere", "71"}, {}});
  Link& link = transport.collective(1);
  const Error error = error_of([&] {
    link.peek();
    transport.wait(std::vector<Link*>{&link}, milliseconds(10));
  });
  expect_absent(text_of(ErrorCode::PeerLost, [&] { link.peek(); }), {"Bad file"});
  return error;
}

TEST(TcpConnect, ARefusedConnectionNamesThePeer) {
  CapturedLog log;
  const ClosedPort nobody;
  const std::string endpoint = nobody.endpoint();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    const Error error = connect_error(endpoint);
    EXPECT_EQ(error.code(), ErrorCode::PeerLost);
    expect_parts(error.what(), {"rank 1 (somewhere, pid 71, " + endpoint + ")", "Connection refused"});
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TcpConnect, AnotherSecretNamesThePeer) {
  CapturedLog log;
  Served other(options_of(1));
  TcpTransportOptions options = options_of(2);
  options.job_secret = "another secret";
  const Error error = connect_error(other->endpoint(), options);
  EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
  expect_parts(error.what(), {"rank 1 (somewhere, pid 71", "another job secret"});
  log.wait_for("rank 2 has another job secret; compare TUTTI_JOB_SECRET");
}

TEST(TcpConnect, APortThatIsNotTuttiNamesThePeer) {
  // The store's port is a Tutti port, but not a rank's.
  CapturedLog log;
  TcpStoreServerOptions server_options;
  server_options.job_secret = kTcpSecret;
  server_options.job_id = "a job";
  const TcpStoreServer store(server_options);
  const Error error = connect_error("127.0.0.1:" + std::to_string(store.port()));
  EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
  expect_parts(error.what(), {"rank 1 (somewhere, pid 71", "connection kind store here, collective at rank 2"});
}

TEST(TcpConnect, ABadBindAddressIsNamed) {
  TcpTransportOptions options = options_of(0);
  options.bind_address = "not-an-address";
  expect_error(ErrorCode::InvalidArgument, {"not-an-address"}, [&] { TcpTransport transport(options); });
  options.bind_address = "192.0.2.1";  // reserved for documentation: nobody's
  expect_error(ErrorCode::System, {"192.0.2.1"}, [&] { TcpTransport transport(options); });
}

TEST(TcpSockets, WithinAHostAreNotPaced) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  asio::ip::tcp::socket socket(context);
  EXPECT_FALSE(stays_on_this_host(socket));
  prepare_connected(socket);  // does nothing: nobody is at the other end
  socket.connect(acceptor.local_endpoint());
  EXPECT_TRUE(stays_on_this_host(socket));
  prepare_connected(socket);
  char control[16] = {};
  socklen_t size = sizeof control;
  ASSERT_EQ(::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, control, &size), 0);
  EXPECT_STREQ(control, "reno");
}

}  // namespace
}  // namespace tutti::comm
