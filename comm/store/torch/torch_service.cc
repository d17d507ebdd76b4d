#include <tutti/comm/base/error.h>
#include <tutti/comm/store/torch/torch_service.h>

#include <cstdlib>

namespace tutti::comm {
namespace {

constexpr char kStopWaiting = 0;
constexpr char kWaitCanceled = 1;
constexpr TorchQuery kUnanswered = TorchQuery::Set;
constexpr std::size_t kMaxReplyBytes = std::size_t{256} << 20;  // a short query can ask for very much

std::string byte(char value) { return std::string(1, value); }

std::string number_text(std::int64_t number, std::size_t nbytes = 8) {
  return torch_number(static_cast<std::uint64_t>(number), nbytes);
}

void check_reply(std::size_t bytes) {
  if (bytes > kMaxReplyBytes) refuse("the reply would have more than ", kMaxReplyBytes, " bytes; ask for fewer keys");
}

}  // namespace

// The service keeps a request's header until it is answered; its id says what the client asked.
TorchStoreService::TorchStoreService(std::size_t max_bytes, SendReply send_reply)
    : send_reply_(std::move(send_reply)),
      service_([this](ClientId client, const StoreHeader& request, StoreStatus,
                      const StoreBody& body) { reply(client, static_cast<TorchQuery>(request.id), body); },
               max_bytes) {}

void TorchStoreService::handle(ClientId client, TorchGeneration generation, const TorchRequest& request) {
  if (generation == TorchGeneration::Legacy) service_.forget_wait(client);
  const auto& strings = request.strings;
  const auto as = [&](StoreOp op) { carry_out(client, request.query, op, strings, request.number); };
  switch (request.query) {
    case TorchQuery::Validate:
      return;
    case TorchQuery::Ping:
      return send_reply_(client, number_text(request.number, 4));
    case TorchQuery::Get:
    case TorchQuery::MultiGet:
      return send_reply_(client, values_of(strings));
    case TorchQuery::ListKeys:
      return send_reply_(client, all_keys());
    case TorchQuery::Wait:
      service_.forget_wait(client);
      return as(StoreOp::Wait);
    case TorchQuery::CancelWait:
      service_.forget_wait(client);
      return send_reply_(client, byte(kWaitCanceled));
    case TorchQuery::Barrier:
      return meet(client, strings[0], request.number);
    case TorchQuery::Set:
    case TorchQuery::MultiSet:
      return as(StoreOp::Set);
    case TorchQuery::CompareSet:
      if (service_.map().find(strings[0]) == nullptr && !strings[1].empty())
        return send_reply_(client, torch_bytes(strings[1]));
      return as(StoreOp::CompareSet);
    case TorchQuery::Add:
      return as(StoreOp::Add);
    case TorchQuery::Check:
      return as(StoreOp::Check);
    case TorchQuery::NumKeys:
      return as(StoreOp::NumKeys);
    case TorchQuery::DeleteKey:
      return as(StoreOp::Delete);
    case TorchQuery::Append:
      return as(StoreOp::Append);
  }
}

void TorchStoreService::carry_out(ClientId client, TorchQuery query, StoreOp op, std::span<const std::string> strings,
                                  std::int64_t number) {
  const StoreHeader header{.code = static_cast<std::uint8_t>(op), .id = static_cast<std::uint32_t>(query)};
  service_.carry_out(client, header, {op, {number, {strings.begin(), strings.end()}}});
}

void TorchStoreService::reply(ClientId client, TorchQuery query, const StoreBody& body) {
  switch (query) {
    case TorchQuery::Add:
    case TorchQuery::NumKeys:
    case TorchQuery::DeleteKey:
      return send_reply_(client, number_text(body.number));
    case TorchQuery::CompareSet:
      return send_reply_(client, torch_bytes(body.strings[0]));
    case TorchQuery::Check:
      return send_reply_(client, byte(body.number != 0 ? 0 : 1));
    case TorchQuery::Wait:
    case TorchQuery::Barrier:
      return send_reply_(client, byte(kStopWaiting));
    default:
      return;
  }
}

/// The client waits for a key that the last one to come sets, and removes again: later ones find the count complete.
void TorchStoreService::meet(ClientId client, const std::string& key, std::int64_t clients) {
  const std::string one_more[] = {key}, gate[] = {key + "/all are here"}, open[] = {gate[0], ""};
  carry_out(client, kUnanswered, StoreOp::Add, one_more, 1);
  const bool all_here = std::strtoll(service_.map().find(key)->c_str(), nullptr, 10) >= clients;
  service_.forget_wait(client);
  if (!all_here) return carry_out(client, TorchQuery::Barrier, StoreOp::Wait, gate);
  carry_out(client, kUnanswered, StoreOp::Set, open);
  carry_out(client, kUnanswered, StoreOp::Delete, gate);
  send_reply_(client, byte(kStopWaiting));
}

std::string TorchStoreService::values_of(std::span<const std::string> keys) const {
  std::string reply;
  for (const std::string& key : keys) {
    const std::string* value = service_.map().find(key);
    reply += torch_bytes(value == nullptr ? std::string_view() : *value);
    check_reply(reply.size());
  }
  return reply;
}

std::string TorchStoreService::all_keys() const {
  std::string reply = number_text(static_cast<std::int64_t>(service_.map().size()));
  service_.map().visit([&](std::string_view key, std::string_view) { reply += torch_bytes(key); });
  check_reply(reply.size());
  return reply;
}

}  // namespace tutti::comm
