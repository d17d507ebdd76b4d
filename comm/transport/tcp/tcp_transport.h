// TcpTransport: one connection per pair of ranks and lane, opened on first use; one listener for all groups of a
// process.
//
// Collectives: the higher rank connects to the lower one (both know that they will talk). Messages and their answers:
// the rank that sends first; if both do so at once, the higher rank's connection is used. Every connection is
// authenticated (wire/handshake.h) before a frame is read, and with `encrypt` all of its bytes are TLS (tls_session.h).
// Contract and thread-safety: transport.h.
#pragma once

#include <poll.h>
#include <tutti/comm/transport/doorbell.h>
#include <tutti/comm/transport/tcp/bulk.h>
#include <tutti/comm/transport/tcp/tcp_link.h>
#include <tutti/comm/transport/tcp/tcp_listener.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tutti::comm {

struct TcpTransportOptions {
  int rank = 0;
  int world_size = 1;
  std::string group = "world";
  std::string job_id = "default";
  std::string job_secret;
  std::string bind_address = "127.0.0.1";
  bool encrypt = false;                                          // TLS on every connection
  bool oversubscribed = false;                                   // more ranks on this host than CPUs
  std::shared_ptr<BulkEngine> bulk{};                            // of long payloads; on all ranks of the group or none
  std::size_t bulk_from = kBulkBytes;                            // the shortest that is one
  std::chrono::milliseconds handshake_limit{10'000};             // tcp_listener.h
  std::chrono::milliseconds group_limit{std::chrono::hours(1)};  // tcp_listener.h
};

TcpListenerOptions listener_options(const TcpTransportOptions& options);

/// How a rank is reached and named.
struct PeerAddress {
  std::string endpoint;  // "10.0.0.2:40913"
  std::string host;
  std::string pid;
  int world_rank = -1;                // of a rank of a sub-group: its rank in the world
  std::vector<std::string> others{};  // endpoints, next best first
  std::string bulk{};                 // where its BulkEngine is reached
};

class TcpTransport final : public Transport {
 public:
  /// Joins `listener`, or listens by itself if there is none (bind_address, job_id, job_secret, encrypt and the limits
  /// are the listener's). Does not connect yet. Throws System, InvalidArgument.
  explicit TcpTransport(const TcpTransportOptions& options, std::shared_ptr<TcpListener> listener = nullptr);
  ~TcpTransport() override;

  /// What others connect to; publish it, then give set_peers those of all ranks before the first operation.
  std::string endpoint() const { return listener_->endpoint(); }
  void set_peers(std::vector<PeerAddress> peers);

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  Link& collective(int peer) override { return collective_[static_cast<std::size_t>(peer)]; }
  Link& messages(int peer) override { return messages_[static_cast<std::size_t>(peer)]; }
  Link& answers(int peer) override { return answers_[static_cast<std::size_t>(peer)]; }
  bool service() override;
  void wait(std::span<Link* const> links, std::chrono::milliseconds timeout) override;
  /// The same, and until something happens on one of `more`, whose revents are filled in.
  void wait_also(std::span<Link* const> links, std::span<pollfd> more, std::chrono::milliseconds timeout);
  void wake() override { doorbell_.ring(); }
  void close() override;
  std::string describe(int peer) const override;
  std::vector<int> hosts() const override;  // by the names of the hosts
  std::string_view name() const override { return is_encrypted() ? "tcp+tls" : has_bulk() ? "tcp+ucx" : "tcp"; }
  bool has_bulk() const { return options_.bulk != nullptr; }
  bool is_encrypted() const { return listener_->tls() != nullptr; }
  bool oversubscribed() const override { return options_.oversubscribed; }

 private:
  PeerIdentity identity(ConnectionKind kind) const;
  std::function<std::unique_ptr<Dialer>()> connector(int peer, ConnectionKind kind);
  std::string trouble(int peer) const;
  std::string name_of(int peer) const;
  std::vector<std::string> endpoints_of(const PeerAddress& peer);
  void note_reached(int peer, const std::string& endpoint);
  std::deque<TcpLink>& links(ConnectionKind kind);
  std::string objection(const PeerIdentity& peer) const;
  bool admit(const PeerIdentity& peer);
  void adopt(const PeerIdentity& peer, ByteStream socket);

  const TcpTransportOptions options_;
  Doorbell doorbell_;
  std::atomic<int> sleepers_{0};                 // threads in wait()
  const std::shared_ptr<TcpListener> listener_;  // outlives the links: their sockets belong to its context
  std::vector<PeerAddress> peers_;
  RunsAhead collectives_run_ahead_;
  RunsAhead messages_run_ahead_;
  std::deque<TcpLink> collective_;
  std::deque<TcpLink> messages_;
  std::deque<TcpLink> answers_;
  std::atomic<bool> left_{false};
  std::atomic<bool> peers_known_{false};  // connections may come before
};

}  // namespace tutti::comm
