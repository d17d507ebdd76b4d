#include <tutti/comm/base/error.h>
#include <tutti/comm/store/torch/torch_service.h>

#include <utility>

namespace tutti::comm {
namespace {

constexpr char kStopWaiting = 0;
constexpr char kWaitCanceled = 1;
constexpr std::size_t kEntryBytes = 64;  // what a key or an entry of a queue costs besides its bytes
constexpr std::size_t kMaxReplyBytes = std::size_t{256} << 20;  // a short query can ask for very much

std::string byte(char value) { return std::string(1, value); }

void check_reply(std::size_t bytes) {
  if (bytes > kMaxReplyBytes)
    throw Error(ErrorCode::InvalidArgument,
                "the reply would have more than " + std::to_string(kMaxReplyBytes) + " bytes; ask for fewer keys");
}

}  // namespace

void TorchStoreService::handle(ClientId client, TorchGeneration generation, TorchRequest request) {
  if (generation == TorchGeneration::Legacy) client_left(client);  // only its wait goes
  switch (request.query) {
    case TorchQuery::Validate:
      return;
    case TorchQuery::Ping: {
      std::string reply;
      append_number(reply, static_cast<std::uint64_t>(request.number), 4);
      return send_reply_(client, std::move(reply));
    }
    case TorchQuery::Wait:
      return wait_for(client, std::move(request.strings));
    case TorchQuery::CancelWait:
      client_left(client);
      return send_reply_(client, byte(kWaitCanceled));
    case TorchQuery::Barrier:
      return meet(client, request);
    case TorchQuery::Set:
    case TorchQuery::CompareSet:
    case TorchQuery::Add:
    case TorchQuery::DeleteKey:
    case TorchQuery::Append:
    case TorchQuery::MultiSet:
    case TorchQuery::QueuePush:
    case TorchQuery::QueuePop:
      return write(client, request);
    case TorchQuery::Get:
    case TorchQuery::Check:
    case TorchQuery::NumKeys:
    case TorchQuery::MultiGet:
    case TorchQuery::QueueLength:
    case TorchQuery::ListKeys:
      return read(client, request);
  }
}

void TorchStoreService::read(ClientId client, const TorchRequest& request) {
  switch (request.query) {
    case TorchQuery::Get:
    case TorchQuery::MultiGet: {
      std::string reply;
      for (const std::string& key : request.strings) {
        const std::string* value = map_.find(key);
        append_bytes(reply, value == nullptr ? std::string_view() : std::string_view(*value));
        check_reply(reply.size());
      }
      return send_reply_(client, std::move(reply));
    }
    case TorchQuery::Check:
      return send_reply_(client, byte(first_missing(request.strings, 0) == request.strings.size() ? 0 : 1));
    case TorchQuery::NumKeys:
      return reply_number(client, static_cast<std::int64_t>(map_.size()));
    case TorchQuery::QueueLength: {
      const auto found = queues_.find(request.strings[0]);
      return reply_number(client, found == queues_.end() ? 0 : static_cast<std::int64_t>(found->second.size()));
    }
    default: {
      std::string reply;
      append_number(reply, map_.size());
      map_.visit([&](std::string_view key, std::string_view) { append_bytes(reply, key); });
      check_reply(reply.size());
      return send_reply_(client, std::move(reply));
    }
  }
}

void TorchStoreService::write(ClientId client, const TorchRequest& request) {
  const auto& text = request.strings;
  switch (request.query) {
    case TorchQuery::Set:
    case TorchQuery::MultiSet:
      for (std::size_t i = 0; i < text.size(); i += 2)
        change(text[i], text[i + 1].size(), [&] { map_.set(text[i], text[i + 1]); });
      return;
    case TorchQuery::CompareSet: {
      if (map_.find(text[0]) == nullptr && !text[1].empty()) return reply_value(client, text[1]);
      std::string after;
      change(text[0], text[2].size(), [&] { after = map_.compare_set(text[0], text[1], text[2]); });
      return reply_value(client, after);
    }
    case TorchQuery::Add: {
      std::int64_t after = 0;
      change(text[0], sizeof(after), [&] { after = map_.add(text[0], request.number); });
      return reply_number(client, after);
    }
    case TorchQuery::DeleteKey: {
      const std::size_t bytes = bytes_of(text[0]);
      const bool erased = map_.erase(text[0]);
      stored_bytes_ -= bytes;
      return reply_number(client, erased ? 1 : 0);
    }
    case TorchQuery::Append:
      return change(text[0], text[1].size(), [&] { map_.append(text[0], text[1]); });
    case TorchQuery::QueuePush:
      return push(request);
    default:
      return pop(client, text[0]);
  }
}

void TorchStoreService::change(const std::string& key, std::size_t more_bytes, const std::function<void()>& action) {
  if (stored_bytes_ + key.size() + more_bytes + kEntryBytes > max_bytes_)
    throw Error(ErrorCode::InvalidArgument, "the store holds " + std::to_string(stored_bytes_) +
                                                " bytes, and may hold " + std::to_string(max_bytes_) + " at most");
  const std::size_t before = bytes_of(key);
  action();
  stored_bytes_ += bytes_of(key);
  stored_bytes_ -= before;
  wake(key, false, false);
}

void TorchStoreService::push(const TorchRequest& request) {
  const std::string& key = request.strings[0];
  const std::string& value = request.strings[1];
  const std::size_t bytes = key.size() + value.size() + kEntryBytes;
  if (stored_bytes_ + bytes > max_bytes_)
    throw Error(ErrorCode::InvalidArgument, "the store is full (" + std::to_string(max_bytes_) + " bytes)");
  queues_[key].push_back(value);
  stored_bytes_ += bytes;
  wake(key, false, true);
}

void TorchStoreService::pop(ClientId client, const std::string& key) {
  const auto found = queues_.find(key);
  std::string reply;
  append_number(reply, found == queues_.end() ? 0 : found->second.size());
  if (found != queues_.end()) {
    append_bytes(reply, found->second.front());
    stored_bytes_ -= key.size() + found->second.front().size() + kEntryBytes;
    found->second.pop_front();
    if (found->second.empty()) queues_.erase(found);
  }
  send_reply_(client, std::move(reply));
}

void TorchStoreService::meet(ClientId client, const TorchRequest& request) {
  const std::string& key = request.strings[0];
  std::int64_t here = 0;
  change(key, sizeof(here), [&] { here = map_.add(key, 1); });
  if (here < request.number) {
    stand_in_line(client, Wait{{key}, 0, 0, true});
  } else {
    wake(key, true, false);
    send_reply_(client, byte(kStopWaiting));
  }
}

void TorchStoreService::wait_for(ClientId client, std::vector<std::string> keys) {
  const std::size_t missing = first_missing(keys, 0);
  if (missing == keys.size()) return send_reply_(client, byte(kStopWaiting));
  stand_in_line(client, Wait{std::move(keys), missing, 0, false});
}

void TorchStoreService::stand_in_line(ClientId client, Wait wait) {
  client_left(client);
  wait.ticket = next_ticket_++;
  auto& lines = wait.barrier ? barrier_lines_ : lines_;
  lines[wait.keys[wait.blocked_on]].emplace(wait.ticket, client);
  waits_.emplace(client, std::move(wait));
}

void TorchStoreService::wake(const std::string& key, bool barrier, bool one_only) {
  auto& lines = barrier ? barrier_lines_ : lines_;
  const auto line = lines.find(key);
  if (line == lines.end()) return;
  const std::map<Ticket, ClientId> standing = std::exchange(line->second, {});
  lines.erase(line);
  bool served = false;
  for (const auto& [ticket, client] : standing) {
    Wait& wait = waits_.at(client);
    if (served && one_only) {
      lines[key].emplace(ticket, client);
      continue;
    }
    wait.blocked_on = barrier ? wait.keys.size() : first_missing(wait.keys, wait.blocked_on + 1);
    if (wait.blocked_on < wait.keys.size()) {
      lines[wait.keys[wait.blocked_on]].emplace(ticket, client);
      continue;
    }
    served = true;
    waits_.erase(client);
    send_reply_(client, byte(kStopWaiting));
  }
}

void TorchStoreService::client_left(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  auto& lines = found->second.barrier ? barrier_lines_ : lines_;
  const auto line = lines.find(found->second.keys[found->second.blocked_on]);
  line->second.erase(found->second.ticket);
  if (line->second.empty()) lines.erase(line);
  waits_.erase(found);
}

bool TorchStoreService::exists(const std::string& key) const {
  return map_.find(key) != nullptr || queues_.contains(key);
}

std::size_t TorchStoreService::first_missing(const std::vector<std::string>& keys, std::size_t from) const {
  while (from < keys.size() && exists(keys[from])) ++from;
  return from;
}

std::size_t TorchStoreService::bytes_of(const std::string& key) const {
  const std::string* value = map_.find(key);
  return value == nullptr ? 0 : key.size() + value->size() + kEntryBytes;
}

void TorchStoreService::reply_value(ClientId client, std::string_view value) {
  std::string reply;
  append_bytes(reply, value);
  send_reply_(client, std::move(reply));
}

void TorchStoreService::reply_number(ClientId client, std::int64_t number) {
  std::string reply;
  append_number(reply, static_cast<std::uint64_t>(number));
  send_reply_(client, std::move(reply));
}

}  // namespace tutti::comm
