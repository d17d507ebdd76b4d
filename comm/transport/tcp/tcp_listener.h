// TcpListener: where a process listens, at one or more addresses, and the connections that are not authenticated yet.
//
// All groups that descend from one ProcessGroup::connect share it: a connection says in its hello which group it is
// for, and goes to the transport that has joined under that group's hash. A connection for a group without a member yet
// waits for its verdict, since ranks form a group at different times, and so does one that its member does not admit
// yet; one for a group that has left is closed.
// A stranger, a half-open connection or a burst of them delays no rank: nothing here blocks, a connection that has not
// finished its handshake in time is dropped (sooner where there is no room for others), and refusals are logged with
// their address and reason, at a limited rate.
// Thread-safety: all methods may be called by any thread; a second caller of service() returns at once.
#pragma once

#include <tutti/comm/transport/tcp/handshaking_socket.h>
#include <tutti/comm/wire/printable.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

struct TcpListenerOptions {
  std::vector<std::string> addresses{"127.0.0.1"};  // numeric
  std::string job_id = "default";
  std::string job_secret;
  bool encrypt = false;                                          // TLS, on what is accepted and on what tls() opens
  std::chrono::milliseconds handshake_limit{10'000};             // an accepted connection that needs longer is dropped
  std::chrono::milliseconds group_limit{std::chrono::hours(1)};  // how long one with the secret waits for its group
};

class TcpListener {
 public:
  /// One group of this process. Its functions are called with the listener's lock held and must not call it.
  struct Member {
    PeerIdentity self;  // what peers must agree with
    /// For a peer that agrees: false lets it wait, and is asked again. An admitted one is adopted, unless it breaks
    /// before.
    std::function<bool(const PeerIdentity& peer)> admit;
    std::function<void(const PeerIdentity& peer, ByteStream socket)> adopt;
    std::function<void()> wake;  // ends the group's wait(), because descriptors() has changed
  };

  /// Binds exactly these addresses, each on a port of the kernel's choice, and listens. One that cannot be bound is
  /// left out, with a warning, unless it is the first. Throws System naming the address, InvalidArgument (also for
  /// encryption without a secret).
  explicit TcpListener(TcpListenerOptions options);

  std::string endpoint() const { return endpoints_.front(); }  // "10.0.0.2:40913"
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  asio::io_context& context() { return context_; }
  const TlsContext* tls() const { return tls_ ? &*tls_ : nullptr; }  // null without encryption

  /// From now on connections for member.self.group go to `member`. Throws InvalidArgument if another member has it.
  void join(Member member);

  /// When this returns `member`'s functions are not being called and never will be. Connections for the group are
  /// closed from now on; when the last member leaves, so are the port and the unfinished connections.
  void leave(std::uint64_t group);

  /// Notes the endpoint by which a peer was reached, for all groups of this process; `first` is its first one.
  void remember(const std::string& first, const std::string& reached);
  std::string reached(const std::string& first);  // "": not known

  /// True if a connection was handed over.
  bool service();

  /// Descriptors to poll for reading: the listening ones, while they can accept, and the unfinished connections, except
  /// those that wait for a group: they send nothing.
  std::vector<int> descriptors();

 private:
  bool can_accept() const;
  void accept_all(asio::ip::tcp::acceptor& acceptor);
  void show_out_the_silent();
  void close();
  bool is_over(HandshakingSocket& inbound, bool& handed_over);
  bool is_late(HandshakingSocket& inbound);
  std::optional<PeerIdentity> expectation(const PeerIdentity& peer) const;

  const TcpListenerOptions options_;
  const std::uint64_t job_;
  std::optional<TlsContext> tls_;
  asio::io_context context_;
  std::vector<asio::ip::tcp::acceptor> acceptors_;  // never empty; one per address
  const std::vector<std::string> endpoints_;
  std::mutex mutex_;  // guards all below, and the use of acceptors_
  std::map<std::uint64_t, Member> members_;
  std::deque<std::uint64_t> left_;  // the latest groups that have left
  std::list<HandshakingSocket> inbound_;
  StrangerLog strangers_{""};
  std::map<std::string, std::string> reached_;
  std::chrono::steady_clock::time_point accept_again_{};  // not before this
};

}  // namespace tutti::comm
