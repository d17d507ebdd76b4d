// A peer with several addresses: the first that works is taken, at once where another fails and soon where it is
// silent; an address that leads to somebody else is left; where none works all attempts are in the error.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <tutti/tests/support/watchdog.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tcp_test.h"

namespace tutti::comm {
namespace {

using namespace test;
using std::chrono::milliseconds;

TcpTransportOptions options_of(int rank) { return tcp_options(rank, 3); }

std::unique_ptr<TcpTransport> transport_at(int rank, std::vector<std::string> addresses) {
  TcpListenerOptions listener = listener_options(options_of(rank));
  listener.addresses = std::move(addresses);
  return std::make_unique<TcpTransport>(options_of(rank), std::make_shared<TcpListener>(listener));
}

/// A port where connections are made, by the kernel, and nobody ever says anything.
class SilentPort {
 public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    std::string error;
    const Endpoint any = resolve("127.0.0.1", 0, ResolveFor::Binding, error).at(0);
    if (::bind(socket_.get(), any.address(), any.length) != 0 || ::listen(socket_.get(), 8) != 0) std::abort();
  }
  std::string endpoint() const { return local_endpoint(socket_.get()).text(); }

 private:
  Socket socket_;
};

/// Rank 2's connection to rank 1, which `peer` is (or nobody).
class Connection {
 public:
  Connection(const std::vector<std::string>& endpoints, TcpTransport* peer) : peer_(peer) {
    PeerAddress address{.endpoint = endpoints.front(), .host = "somewhere", .pid = "71"};
    address.others.assign(endpoints.begin() + 1, endpoints.end());
    self_.set_peers({{}, address, {}});
  }

  /// Until the frame has left, which it does not before the handshake is over.
  void send() {
    Outgoing frame;
    frame.header.kind = FrameKind::Collective;
    Link& link = self_.collective(1);
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    link.post(frame);
    while (!link.flush()) {
      if (deadline.expired()) throw Error(ErrorCode::Timeout, "not connected; " + self_.describe(1));
      self_.wait(std::vector<Link*>{&link}, milliseconds(5));
      if (peer_) peer_->service();
    }
  }

  /// Until all of these are connected, by the kernel: the peer has not looked.
  void reach_all(const std::vector<std::string>& endpoints) {
    Link& link = self_.collective(1);
    const auto reached = [&](const std::string& endpoint) {
      return self_.describe(1).find(endpoint + " has not let us in yet") != std::string::npos;
    };
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    while (!std::ranges::all_of(endpoints, reached) && !deadline.expired()) {
      link.peek();
      self_.wait(std::vector<Link*>{&link}, milliseconds(5));
    }
  }

  /// Whether the peer gets the frame.
  bool arrives() {
    Link& link = peer_->collective(2);
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    while (!link.peek() && !deadline.expired()) peer_->wait(std::vector<Link*>{&link}, milliseconds(5));
    return link.peek() != nullptr;
  }

  TcpTransport& self() { return self_; }
  TcpListener& listener() { return *listener_; }

 private:
  std::shared_ptr<TcpListener> listener_ = std::make_shared<TcpListener>(listener_options(options_of(2)));
  TcpTransport self_{options_of(2), listener_};
  TcpTransport* peer_;
};

TEST(Dialer, TakesTheNextAddressWhereOneIsClosed) {
  CapturedLog log;
  const auto peer = transport_at(1, {"127.0.0.1"});
  const ClosedPort closed;
  Connection connection({closed.endpoint(), peer->endpoint()}, peer.get());
  connection.send();
  EXPECT_TRUE(connection.arrives());
}

TEST(Dialer, TriesTheNextAddressBesideOneThatIsSilent) {
  CapturedLog log;
  const SilentPort silent;
  const auto peer = transport_at(1, {"127.0.0.1"});
  Connection connection({silent.endpoint(), peer->endpoint()}, peer.get());
  const auto begin = std::chrono::steady_clock::now();
  connection.send();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(200));  // its head start
  EXPECT_TRUE(connection.arrives());
}

TEST(Dialer, KeepsToWhatHasWorked) {
  CapturedLog log;
  const SilentPort silent;
  const auto peer = transport_at(1, {"127.0.0.1"});
  Connection connection({silent.endpoint(), peer->endpoint()}, peer.get());
  connection.send();
  Outgoing frame;
  frame.header.kind = FrameKind::Eager;
  Link& link = connection.self().messages(1);
  link.post(frame);  // another lane
  const Deadline deadline = soon();
  while (!link.flush()) {
    connection.self().wait(std::vector<Link*>{&link}, milliseconds(5));
    peer->service();
    ASSERT_FALSE(deadline.expired());
  }
  EXPECT_EQ(connection.listener().reached(silent.endpoint()), peer->endpoint());
  expect_parts(log.quiet_lines(), {"first, and keeps to that"});
}

/// The peer looks only when it has been reached by both its addresses: it answers both, and one connection is given up.
TEST(Dialer, TheConnectionThatIsNotTakenIsNoWarning) {
  CapturedLog log;
  TcpListenerOptions options = listener_options(options_of(1));
  options.addresses = {"127.0.0.1", "127.0.0.2"};
  const auto listener = std::make_shared<TcpListener>(options);
  TcpTransport peer(options_of(1), listener);
  Connection connection(listener->endpoints(), &peer);
  connection.reach_all(listener->endpoints());
  connection.send();
  EXPECT_TRUE(connection.arrives());
  const Deadline deadline = soon();
  while (log.quiet_lines().empty() && !deadline.expired()) peer.wait({}, milliseconds(5));
  expect_parts(log.quiet_lines(), {"rank 2 left before it had proved the job secret"});
  EXPECT_EQ(log.lines(), "");
}

TEST(Dialer, LeavesAnAddressThatLeadsToAnotherRank) {
  CapturedLog log;
  const auto peer = transport_at(1, {"127.0.0.1"});
  const auto other = transport_at(0, {"127.0.0.1"});
  Connection connection({other->endpoint(), peer->endpoint()}, peer.get());
  std::atomic<bool> done{false};
  std::thread serving([&] {
    while (!done) other->wait({}, milliseconds(5));
  });
  connection.send();
  done = true;
  serving.join();
  EXPECT_TRUE(connection.arrives());
}

TEST(Dialer, NamesAllAttemptsWhereNoneWorks) {
  CapturedLog log;
  const ClosedPort one, another;
  const std::string first = one.endpoint(), second = another.endpoint();
  Connection connection({first, second}, nullptr);
  expect_error(ErrorCode::PeerLost,
               {"lost rank 1 (somewhere, pid 71, " + first + ")",
                "cannot connect to " + first + " from 127.0.0.1: Connection refused",
                "; cannot connect to " + second + " from 127.0.0.1: Connection refused", "nothing listens there"},
               [&] { connection.send(); });
}

/// What `transport` says of rank 1 once there is something to say, while it waits for a frame from it.
std::string trouble_with_rank_1(TcpTransport& transport) {
  Link& link = transport.collective(1);
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  while (transport.describe(1).find('[') == std::string::npos && !deadline.expired()) {
    link.peek();
    transport.wait(std::vector<Link*>{&link}, milliseconds(20));
  }
  return transport.describe(1);
}

TEST(Dialer, BothSidesSayWhereTheyStandWhileTheyTry) {
  CapturedLog log;
  const SilentPort silent;
  Connection connection({silent.endpoint()}, nullptr);
  const std::string text = trouble_with_rank_1(connection.self());
  expect_parts(text, {"rank 1 (somewhere, pid 71, " + silent.endpoint() + ") [connecting for 1.",
                      silent.endpoint() + " has not let us in yet]"});
  TcpTransport waiting(options_of(0));
  waiting.set_peers({{}, {"127.0.0.1:9", "somewhere", "71"}, {}});
  expect_parts(trouble_with_rank_1(waiting), {"[no connection from it for 1."});
}

TEST(Listener, ListensAtAllItsAddressesAndReportsThem) {
  CapturedLog log;
  const auto peer = transport_at(1, {"127.0.0.1", "127.0.0.2", "192.0.2.1"});  // the last is nobody's
  expect_parts(log.wait_for("cannot listen on 192.0.2.1"), {"at its other addresses only"});
  TcpListenerOptions options = listener_options(options_of(1));
  options.addresses = {"127.0.0.1", "127.0.0.2"};
  const TcpListener listener(options);
  ASSERT_EQ(listener.endpoints().size(), 2u);
  EXPECT_TRUE(listener.endpoints()[1].starts_with("127.0.0.2:"));
}

TEST(Listener, LetsInByEachOfItsAddresses) {
  CapturedLog log;
  TcpListenerOptions options = listener_options(options_of(1));
  options.addresses = {"127.0.0.1", "127.0.0.2"};
  for (const std::size_t which : {0u, 1u}) {
    const auto listener = std::make_shared<TcpListener>(options);
    TcpTransport peer(options_of(1), listener);
    Connection connection({listener->endpoints()[which]}, &peer);
    connection.send();
    EXPECT_TRUE(connection.arrives());
  }
}

}  // namespace
}  // namespace tutti::comm
