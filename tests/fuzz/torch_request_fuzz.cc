// The store for PyTorch's clients: the streams of two clients, in pieces of any size, one of which may speak the legacy
// protocol. The pieces must not matter to what is understood, and no wait and no byte may outlive what they belong to.
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/torch/torch_service.h>

#include <algorithm>
#include <set>
#include <vector>

#include "fuzz_input.h"

namespace {

using namespace tutti;
using comm::TorchRequestReader;
using comm::TorchStoreService;

constexpr std::size_t kMaxBytes = 1 << 16;

/// The requests in `bytes`, which come in pieces of `piece`, up to what makes no sense.
std::vector<comm::TorchRequest> requests_in(std::string_view bytes, std::size_t piece) {
  TorchRequestReader reader;
  std::vector<comm::TorchRequest> requests;
  try {
    std::size_t taken = 0;
    for (std::size_t come = 0; come < bytes.size();) {
      come = std::min(bytes.size(), come + piece);
      do {
        taken += reader.feed(bytes.substr(taken, come - taken));
        auto request = reader.take();
        if (!request) break;
        requests.push_back(std::move(*request));
      } while (true);
    }
  } catch (const comm::Error&) {
  }
  return requests;
}

void compare(const std::vector<comm::TorchRequest>& a, const std::vector<comm::TorchRequest>& b) {
  fuzz::require(a.size() == b.size(), "as many requests, however the bytes come");
  for (std::size_t i = 0; i < a.size(); ++i)
    fuzz::require(a[i].query == b[i].query && a[i].strings == b[i].strings && a[i].number == b[i].number,
                  "the same requests, however the bytes come");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool second_is_legacy = input.number<std::uint8_t>() % 2 == 1;
  const std::string bytes = input.text();
  const auto requests = requests_in(bytes, bytes.size() + 1);
  compare(requests, requests_in(bytes, 1));
  compare(requests, requests_in(bytes, 7));
  std::set<TorchStoreService::ClientId> left;
  TorchStoreService service(kMaxBytes, [&](TorchStoreService::ClientId client, const std::string&) {
    fuzz::require(!left.contains(client), "only those who are here are answered");
  });
  for (const TorchStoreService::ClientId one : {1u, 2u}) service.client_joined(one, "somewhere");
  TorchStoreService::ClientId client = 1;
  for (const comm::TorchRequest& request : requests) {
    const bool legacy = client == 2 && second_is_legacy;
    if (left.contains(client)) break;
    try {
      service.handle(client, legacy ? comm::TorchGeneration::Legacy : comm::TorchGeneration::Modern, request);
    } catch (const comm::Error&) {  // its connection is closed
      service.client_left(client);
      left.insert(client);
    }
    fuzz::require(service.stored_bytes() <= kMaxBytes + 64, "the store holds no more than it may");
    client = 3 - client;
  }
  for (const TorchStoreService::ClientId one : {1u, 2u}) service.client_left(one);
  fuzz::require(service.waiter_count() == 0, "no wait outlives its client");
  return 0;
}
