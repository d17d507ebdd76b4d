// StoreSwarm: many clients of one store in one thread, for measuring and testing the server with crowds.
//
// Each client is one authenticated connection that speaks the store protocol directly (comm/store/store_protocol.h), so
// that a client costs one descriptor and a few bytes. Thread-safety: one thread uses an object. Every call ends by its
// deadline, with Error{Timeout}; a connection that the server closes is Error{PeerLost}.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

class StoreSwarm {
 public:
  /// Opens the connections one after the other.
  StoreSwarm(const comm::TcpStoreOptions& options, int clients, comm::Deadline deadline);

  /// Every client counts itself under `name` and waits for the last of `total`, who may be in another swarm.
  void barrier(const std::string& name, std::int64_t total, comm::Deadline deadline);

  /// Every client keeps `depth` requests on their way (set, get, add, check in turn, on keys of its own) until
  /// `duration` has passed. Returns how many were answered. Throws Error{Protocol} if one was answered with an error.
  std::uint64_t hammer(int depth, std::chrono::milliseconds duration);

  /// Every client sends the first half of a request, and leaves it at that.
  void send_halves();

  /// Every client asks `times` for `key`, and never reads an answer.
  void ask_without_reading(const std::string& key, int times);

  std::uint16_t server_port() const { return comm::remote_endpoint(clients_.front().socket.get()).port(); }
  int clients() const { return static_cast<int>(clients_.size()); }

 private:
  struct Client {
    comm::Socket socket;
    std::string batch;          // encoded requests of one turn
    std::size_t sent = 0;       // of batch
    int unanswered = 0;         // of this turn's requests
    std::vector<char> in = {};  // bytes of replies, not yet whole
  };

  void send_all(Client& client, const std::string& bytes, comm::Deadline deadline);
  std::int64_t receive_one(Client& client, comm::Deadline deadline);  // the number in the reply
  static bool take_reply(Client& client, std::int64_t& number);
  static bool receive_some(Client& client);
  static void push(Client& client);

  std::vector<Client> clients_;
};

/// Connections that never say anything.
std::vector<comm::Socket> connect_silently(std::uint16_t port, int count);

/// How long a round trip of a well-behaved client takes, in seconds: the median and the 99th percentile of `rounds`.
struct RoundTrips {
  double median = 0;
  double p99 = 0;
};
RoundTrips time_round_trips(comm::Store& store, int rounds);

}  // namespace tutti::bench
