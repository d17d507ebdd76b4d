#include <tutti/comm/base/error.h>
#include <tutti/comm/store/store_service.h>
#include <tutti/comm/store/tcp_store_server.h>

#include <utility>

namespace tutti::comm {
namespace {

StoreStatus status_of(ErrorCode code) {
  return code == ErrorCode::InvalidArgument ? StoreStatus::InvalidArgument : StoreStatus::Protocol;
}

}  // namespace

std::string StoreService::objection(const PeerIdentity& newcomer) const {
  const auto here = connections_of_rank_.find(newcomer.rank);
  if (here == connections_of_rank_.end() || here->second == 0) return {};  // mostly; not to look at all clients
  for (const auto& [id, client] : clients_)
    if (client.who.rank == newcomer.rank && client.who.pid != newcomer.pid && !client.said_goodbye)
      return joined("rank ", newcomer.rank, " is here already, as pid ", client.who.pid, " from ", client.address,
                    "; was it started twice? This is pid ", newcomer.pid, ": each process needs a RANK of its own");
  return {};
}

void StoreService::client_joined(ClientId client, const PeerIdentity& who, const std::string& address) {
  clients_[client] = Client{who, address, false, std::nullopt};
  if (who.rank < 0) return;
  ++connections_of_rank_[who.rank];
  ++arrivals_of_rank_[who.rank];
  if (lost_ranks_.erase(who.rank) == 0) return;
  map_.erase(kLostKeyPrefix + std::to_string(who.rank));  // it has come back, as a new process perhaps
  publish_lost_ranks();
}

void StoreService::client_left(ClientId client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  forget_wait(client);
  const Client gone = std::move(found->second);
  clients_.erase(found);
  if (gone.who.rank < 0 || --connections_of_rank_[gone.who.rank] > 0 || gone.said_goodbye) return;
  const std::string rank = std::to_string(gone.who.rank);
  lose(gone.who.rank, "rank " + rank + " (pid " + std::to_string(gone.who.pid) + ", " + gone.address +
                          ") is gone: its connection to the store broke without a goodbye");
}

void StoreService::rank_ended(std::int32_t rank, const std::string& text) {
  if (!connections_of_rank_.contains(rank)) lose(rank, text);
}

void StoreService::lose(std::int32_t rank, const std::string& text) {
  const std::string key = kLostKeyPrefix + std::to_string(rank);
  map_.set(key, text);
  wake(key);
  lost_ranks_.insert(rank);
  publish_lost_ranks();
}

void StoreService::publish_lost_ranks() {
  const std::string ranks = listed(lost_ranks_, " ");
  if (ranks.empty()) {
    map_.erase(kLostRanksKey);
  } else {
    map_.set(kLostRanksKey, ranks);
    wake(kLostRanksKey);
  }
}

bool StoreService::some_are_ahead() const {
  const auto rank_zero = arrivals_of_rank_.find(0);
  return rank_zero != arrivals_of_rank_.end() && std::ranges::any_of(clients_, [&](const auto& client) {
           const std::int32_t rank = client.second.who.rank;
           return rank > 0 && arrivals_of_rank_.at(rank) > rank_zero->second;
         });
}

std::size_t StoreService::waiter_count() const {
  const auto waits = [](const auto& client) { return client.second.wait.has_value(); };
  return static_cast<std::size_t>(std::ranges::count_if(clients_, waits));
}

bool StoreService::said_goodbye(ClientId client) const {
  const auto found = clients_.find(client);
  return found != clients_.end() && found->second.said_goodbye;
}

void StoreService::handle(ClientId client, const StoreHeader& header, std::span<const std::byte> body) {
  try {
    carry_out(client, header, {static_cast<StoreOp>(header.code), decode_store_body(body)});
  } catch (const Error& error) {
    reply_(client, header, status_of(error.code()), {0, {error.what()}});
  }
}

void StoreService::carry_out(ClientId client, const StoreHeader& header, const StoreRequest& request) {
  check_request(request);
  if (waits(request.op)) return wait_for(client, header, request);
  if (request.op == StoreOp::EndWaits) return end_wait(client);
  if (request.op == StoreOp::Goodbye) {
    clients_.at(client).said_goodbye = true;
    return;
  }
  const StoreResult result = map_.apply(request);
  const auto& strings = request.body.strings;
  if (changes(request.op))
    for (std::size_t i = 0; i < strings.size(); i += key_stride(request.op)) wake(strings[i]);
  reply_(client, header, StoreStatus::Ok, {result.number, {result.strings.begin(), result.strings.end()}});
}

/// Looks at the keys before `from`, which existed once, last: one of them may have been deleted since.
std::optional<std::size_t> StoreService::first_missing(std::span<const std::string> keys, std::size_t from) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t index = (from + i) % keys.size();
    if (map_.find(keys[index]) == nullptr) return index;
  }
  return std::nullopt;
}

void StoreService::wait_for(ClientId client, const StoreHeader& header, const StoreRequest& request) {
  std::vector<std::string> keys(request.body.strings.begin(), request.body.strings.end());
  const auto missing = first_missing(keys, 0);
  if (!missing) return answer_wait(client, header, keys);
  Client& owner = clients_.at(client);
  if (owner.wait)
    refuse("this connection waits for a request already (number ", owner.wait->request.id, "); end that wait first");
  queues_[keys[*missing]].insert(client);
  owner.wait = Wait{header, std::move(keys), *missing};
}

void StoreService::answer_wait(ClientId client, const StoreHeader& header, std::span<const std::string> keys) {
  StoreBody answer;
  if (static_cast<StoreOp>(header.code) == StoreOp::Get) {
    answer.strings.reserve(keys.size());
    for (const std::string& key : keys) answer.strings.push_back(*map_.find(key));
  }
  reply_(client, header, StoreStatus::Ok, answer);
}

void StoreService::wake(std::string_view key) {
  if (queues_.empty() || map_.find(key) == nullptr) return;
  const auto queue = queues_.find(std::string(key));
  if (queue == queues_.end()) return;
  const std::set<ClientId> woken = std::move(queue->second);
  queues_.erase(queue);
  for (const ClientId client : woken) {
    std::optional<Wait>& wait = clients_.at(client).wait;
    if (const auto missing = first_missing(wait->keys, wait->blocked_on + 1)) {
      wait->blocked_on = *missing;
      queues_[wait->keys[*missing]].insert(client);
      continue;
    }
    const Wait done = *std::exchange(wait, std::nullopt);
    answer_wait(client, done.request, done.keys);
  }
}

/// Ends the client's wait, if it has one, and returns it.
std::optional<StoreService::Wait> StoreService::take_wait(ClientId client) {
  std::optional<Wait> wait = std::exchange(clients_.at(client).wait, std::nullopt);
  if (!wait) return wait;
  const auto queue = queues_.find(wait->keys[wait->blocked_on]);
  queue->second.erase(client);
  if (queue->second.empty()) queues_.erase(queue);
  return wait;
}

/// The client waits no longer: its wait is answered with what is still missing.
void StoreService::end_wait(ClientId client) {
  const std::optional<Wait> wait = take_wait(client);
  if (!wait) return;
  const MissingKeys missing = map_.missing(wait->keys);
  reply_(client, wait->request, StoreStatus::Timeout, {static_cast<std::int64_t>(missing.count), missing.shown});
}

std::string encoded_reply(const StoreHeader& request, StoreStatus status, const StoreBody& body) {
  std::string message;
  try {
    append_store_message(message, static_cast<std::uint8_t>(status), request.id, body);
  } catch (const Error& error) {  // all the values together are over the limit of a message
    append_store_message(message, static_cast<std::uint8_t>(StoreStatus::InvalidArgument), request.id,
                         {0, {error.what()}});
  }
  return message;
}

}  // namespace tutti::comm
