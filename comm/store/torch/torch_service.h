// TorchStoreService: what a server for PyTorch's TCPStore clients does with their requests. No sockets, no clock: time
// limits are the clients' own affair (they send CANCEL_WAIT).
//
// Means what PyTorch's own server means, oddities included: COMPARE_SET on a missing key echoes what was expected; a
// queue that is not empty counts as a key for CHECK and WAIT, and a push wakes one client. A client waits for one thing
// at a time. One that speaks the legacy protocol has no CANCEL_WAIT: its next request ends a wait it has given up.
//
// Thread-safety: none; the server's one thread owns it.
#pragma once

#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/torch/torch_request.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::comm {

class TorchStoreService {
 public:
  using ClientId = std::uint64_t;
  /// Gets one whole reply; must not call back into the service.
  using SendReply = std::function<void(ClientId, std::string message)>;

  /// `max_bytes`: what keys, values and queues may take together.
  TorchStoreService(std::size_t max_bytes, SendReply send_reply)
      : max_bytes_(max_bytes), send_reply_(std::move(send_reply)) {}

  /// Carries out one request and answers it, now or when its wait ends. Throws Error for what PyTorch's server drops a
  /// client for (ADD to a value that is no number), and when memory or a reply would be over their limits: the protocol
  /// has no error replies. Nothing has changed then, but a MULTI_SET may be half done.
  void handle(ClientId client, TorchGeneration generation, TorchRequest request);

  /// Its connection has ended: its wait is forgotten.
  void client_left(ClientId client);

  std::size_t waiter_count() const { return waits_.size(); }
  std::size_t stored_bytes() const { return stored_bytes_; }

 private:
  using Ticket = std::uint64_t;
  /// Stands in the line of one thing that is missing; when that comes, it moves on to the next missing one.
  struct Wait {
    std::vector<std::string> keys;
    std::size_t blocked_on = 0;
    Ticket ticket = 0;
    bool barrier = false;
  };

  void read(ClientId client, const TorchRequest& request);
  void write(ClientId client, const TorchRequest& request);
  void change(const std::string& key, std::size_t more_bytes, const std::function<void()>& action);
  void push(const TorchRequest& request);
  void pop(ClientId client, const std::string& key);
  void meet(ClientId client, const TorchRequest& request);
  void wait_for(ClientId client, std::vector<std::string> keys);
  void stand_in_line(ClientId client, Wait wait);
  void wake(const std::string& key, bool barrier, bool one_only);
  bool exists(const std::string& key) const;
  std::size_t first_missing(const std::vector<std::string>& keys, std::size_t from) const;
  std::size_t bytes_of(const std::string& key) const;
  void reply_value(ClientId client, std::string_view value);
  void reply_number(ClientId client, std::int64_t number);

  const std::size_t max_bytes_;
  SendReply send_reply_;
  KeyMap map_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
  std::size_t stored_bytes_ = 0;
  std::unordered_map<ClientId, Wait> waits_;
  // Waiting clients in order of arrival: by missing key, and by barrier.
  std::unordered_map<std::string, std::map<Ticket, ClientId>> lines_, barrier_lines_;
  Ticket next_ticket_ = 0;
};

}  // namespace tutti::comm
