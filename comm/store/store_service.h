// StoreService: what a store server does with decoded requests. No sockets, no clock: a client ends its own waits, and
// replies leave through a function, which puts them into the bytes that the client understands.
//
// A client waits for one request at a time; its wait is an entry in a list: it costs memory, never a thread or a lock.
// Thread-safety: none; the server's one thread owns it.
#pragma once

#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/handshake.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti::comm {

class StoreService {
 public:
  using ClientId = std::uint64_t;
  /// Gets the header of the request that is answered; must not call back into the service.
  using Reply = std::function<void(ClientId, const StoreHeader& request, StoreStatus, const StoreBody&)>;

  /// `max_bytes`: what keys and values may take together.
  explicit StoreService(Reply reply, std::size_t max_bytes = std::numeric_limits<std::size_t>::max())
      : reply_(std::move(reply)), map_(max_bytes) {}

  /// Why this client may not join: another process is connected as the same rank. "" if it may.
  std::string objection(const PeerIdentity& newcomer) const;

  /// A connection has authenticated itself; `address` is for texts. If it is a rank's, the key "tutti/lost/<rank>"
  /// goes.
  void client_joined(ClientId client, const PeerIdentity& who, const std::string& address);

  /// Its connection has ended. Its waits are forgotten. If it was a rank's last connection and it ended without a
  /// goodbye, it counts as lost: the keys "tutti/lost/<rank>" and "tutti/lost" are set.
  void client_left(ClientId client);
  /// The process of a rank has ended. If the rank has never been here it is lost, too, with this text.
  void rank_ended(std::int32_t rank, const std::string& text);

  /// Carries out one request and answers it, now or when its wait ends. Never throws for what a client sent: that is
  /// answered with an error reply.
  void handle(ClientId client, const StoreHeader& header, std::span<const std::byte> body);
  /// The same of a decoded request, but throws Error, having changed nothing.
  void carry_out(ClientId client, const StoreHeader& header, const StoreRequest& request);
  /// The wait of this client, if it has one, is not answered any more.
  void forget_wait(ClientId client) { take_wait(client); }

  const KeyMap& map() const { return map_; }
  std::size_t waiter_count() const;
  std::size_t client_count() const { return clients_.size(); }
  bool said_goodbye(ClientId client) const;
  /// Whether a rank is here that has come more often than rank 0: it waits for rank 0 to meet once more.
  bool some_are_ahead() const;

 private:
  /// Stands in the queue of one key that is missing; when that key comes, it moves on to the next missing one.
  struct Wait {
    StoreHeader request;
    std::vector<std::string> keys;
    std::size_t blocked_on = 0;
  };
  struct Client {
    PeerIdentity who;
    std::string address;
    bool said_goodbye = false;
    std::optional<Wait> wait;
  };

  void lose(std::int32_t rank, const std::string& text);
  void publish_lost_ranks();
  void wait_for(ClientId client, const StoreHeader& header, const StoreRequest& request);
  std::optional<Wait> take_wait(ClientId client);
  void end_wait(ClientId client);
  void answer_wait(ClientId client, const StoreHeader& header, std::span<const std::string> keys);
  void wake(std::string_view key);
  std::optional<std::size_t> first_missing(std::span<const std::string> keys, std::size_t from) const;

  Reply reply_;
  KeyMap map_;
  std::unordered_map<ClientId, Client> clients_;
  std::map<std::int32_t, int> connections_of_rank_;
  std::map<std::int32_t, int> arrivals_of_rank_;
  std::set<std::int32_t> lost_ranks_;
  std::unordered_map<std::string, std::set<ClientId>> queues_;  // of the clients that wait, by missing key
};

/// The reply as bytes, for Tutti's own clients; one that is over the limit of a message becomes an error reply.
std::string encoded_reply(const StoreHeader& request, StoreStatus status, const StoreBody& body);

}  // namespace tutti::comm
