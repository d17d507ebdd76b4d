// StoreService: what the store server does with decoded requests. No sockets, no clock: time is an argument, and
// replies leave through a function.
//
// A client that waits is an entry in a list: it costs memory, never a thread or a lock. Thread-safety: none; the
// server's one thread owns it.
#pragma once

#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/handshake.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
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
  using Clock = std::chrono::steady_clock;
  using ClientId = std::uint64_t;
  /// Gets one whole encoded reply; must not call back into the service.
  using SendReply = std::function<void(ClientId, std::string message)>;

  explicit StoreService(SendReply send_reply) : send_reply_(std::move(send_reply)) {}

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
  void handle(ClientId client, const StoreHeader& header, std::span<const std::byte> body, Clock::time_point now);

  /// Answers a request whose body is over the limit, and was skipped.
  void refuse_oversized(ClientId client, const StoreHeader& header);

  /// Ends the waits whose time is up.
  void expire(Clock::time_point now);
  std::optional<Clock::time_point> next_deadline() const;

  std::size_t waiter_count() const { return waiters_.size(); }
  std::size_t client_count() const { return clients_.size(); }
  bool said_goodbye(ClientId client) const;
  /// Whether a rank is here that has come more often than rank 0: it waits for rank 0 to meet once more.
  bool some_are_ahead() const;

 private:
  struct Client {
    PeerIdentity who;
    std::string address;
    bool said_goodbye = false;
    std::set<std::uint64_t> waiters;
  };
  /// Stands in the queue of one key that is missing; when that key comes, it moves on to the next missing one.
  struct Waiter {
    ClientId client = 0;
    StoreHeader request;
    std::vector<std::string> keys;
    std::size_t blocked_on = 0;
    Clock::time_point deadline;
  };
  using WaiterId = std::uint64_t;

  void dispatch(ClientId client, const StoreHeader& header, StoreRequest request, Clock::time_point now);
  void lose(std::int32_t rank, const std::string& text);
  void publish_lost_ranks();
  void wait_for(ClientId client, const StoreHeader& header, const StoreRequest& request, Clock::time_point now);
  void answer_wait(ClientId client, const StoreHeader& header, std::span<const std::string> keys);
  void wake(std::string_view key);
  void forget(WaiterId id);
  std::optional<std::size_t> first_missing(std::span<const std::string> keys, std::size_t from) const;
  void reply(ClientId client, const StoreHeader& request, StoreStatus status, const StoreBody& body);
  void reply_error(ClientId client, const StoreHeader& request, StoreStatus status, std::string_view text);

  SendReply send_reply_;
  KeyMap map_;
  std::unordered_map<ClientId, Client> clients_;
  std::map<std::int32_t, int> connections_of_rank_;
  std::map<std::int32_t, int> arrivals_of_rank_;
  std::set<std::int32_t> lost_ranks_;
  WaiterId next_waiter_ = 0;
  std::unordered_map<WaiterId, Waiter> waiters_;
  std::unordered_map<std::string, std::set<WaiterId>> queues_;  // by missing key
  std::set<std::pair<Clock::time_point, WaiterId>> deadlines_;
};

}  // namespace tutti::comm
