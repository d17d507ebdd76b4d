// The store server's side of a connection: a stream of requests by two clients, of which one leaves and comes back,
// and may end its waits. Every reply must be a message, and no wait may outlive its client.
#include <tutti/comm/store/store_service.h>

#include "fuzz_input.h"

namespace {

using namespace tutti;
using comm::StoreService;

constexpr std::size_t kBodyBytes = 4096;  // enough for every branch

void check_reply(const std::string& message) {
  const auto bytes = std::as_bytes(std::span(message));
  fuzz::require(bytes.size() >= comm::kStoreHeaderBytes, "a reply has a header");
  const auto header = comm::decode_store_header(bytes.first<comm::kStoreHeaderBytes>());
  fuzz::require(header.body_bytes == bytes.size() - comm::kStoreHeaderBytes, "a reply has the length it says");
  fuzz::require(header.code <= static_cast<std::uint8_t>(comm::StoreStatus::Protocol), "a reply has a status");
  comm::decode_store_body(bytes.subspan(comm::kStoreHeaderBytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  StoreService service([](StoreService::ClientId, const comm::StoreHeader& request, comm::StoreStatus status,
                          const comm::StoreBody& body) { check_reply(comm::encoded_reply(request, status, body)); });
  for (const StoreService::ClientId client : {1u, 2u})
    service.client_joined(client, {.rank = static_cast<std::int32_t>(client)}, "somewhere");
  while (!input.empty()) {
    const auto action = input.number<std::uint8_t>();
    const std::uint64_t client = 1 + action % 2;
    if (action >= 0xf0) {
      service.client_left(client);
      service.client_joined(client, {.rank = static_cast<std::int32_t>(client)}, "elsewhere");
      continue;
    }
    const auto header = comm::decode_store_header(input.array<comm::kStoreHeaderBytes>());
    if (header.body_bytes > kBodyBytes) continue;  // its connection is closed
    service.handle(client, header, input.take(header.body_bytes));
  }
  for (const StoreService::ClientId client : {1u, 2u}) service.client_left(client);
  fuzz::require(service.waiter_count() == 0 && service.client_count() == 0, "no wait outlives its client");
  return 0;
}
