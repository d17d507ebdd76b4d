// The handshake, each side against any bytes, and a client that knows the secret but may claim to be anybody.
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/handshake.h>

#include <functional>

#include "fuzz_input.h"

namespace {

using namespace tutti;
using comm::ClientHandshake;
using comm::ErrorCode;
using comm::PeerIdentity;
using comm::ServerHandshake;

constexpr char kSecret[] = "secret";

const PeerIdentity kServer{.kind = comm::ConnectionKind::Collective, .rank = 0, .world_size = 3, .job = 1, .group = 2};

void expect_refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const comm::Error& error) {
    fuzz::require(error.code() == ErrorCode::Protocol || error.code() == ErrorCode::Unauthorized,
                  "a handshake fails as Protocol or Unauthorized");
  }
}

void against_server(fuzz::Input& input) {
  const auto hello = input.array<comm::kHelloBytes>();
  bool may_be = true;
  for (std::size_t have = 0; have < hello.size(); ++have) {
    const bool still = comm::may_be_hello(std::span(hello).first(have));
    fuzz::require(may_be || !still, "what cannot become a hello stays so");
    may_be = still;
  }
  expect_refusal([&] {
    ServerHandshake server(kServer, kSecret);
    server.challenge(hello);
    fuzz::require(may_be, "a hello was one from its first byte on");
    server.verdict(input.array<comm::kProofBytes>());
    fuzz::require(!server.accepted(), "nobody gets in without the secret");
  });
}

void against_client(fuzz::Input& input) {
  const ClientHandshake client({.rank = 1, .world_size = 3}, kSecret);
  expect_refusal([&] {
    client.answer(input.array<comm::kChallengeBytes>());
    fuzz::require(false, "no server passes without the secret");
  });
  expect_refusal([&] { client.finish(input.array<comm::kVerdictBytes>()); });
}

void with_the_secret(fuzz::Input& input) {
  PeerIdentity who;
  who.kind = static_cast<comm::ConnectionKind>(1 + input.number<std::uint8_t>() % 3);
  who.rank = input.number<std::int32_t>();
  who.world_size = input.number<std::int32_t>();
  who.pid = input.number<std::uint32_t>();
  who.job = input.number<std::uint64_t>();
  who.group = input.number<std::uint64_t>();
  const ClientHandshake client(who, kSecret);
  ServerHandshake server(kServer, kSecret);
  expect_refusal([&] {
    const auto challenge = server.challenge(client.hello());
    fuzz::require(server.peer().rank == who.rank && server.peer().pid == who.pid, "the server knows who it is");
    client.finish(server.verdict(client.answer(challenge)));
  });
  const bool agrees = who.kind != comm::ConnectionKind::Store && who.job == kServer.job && who.group == kServer.group &&
                      (who.world_size == kServer.world_size || who.world_size == -1) && who.rank >= -1 &&
                      who.rank < kServer.world_size;
  fuzz::require(server.accepted() == agrees, "whoever agrees gets in, and nobody else");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.number<std::uint8_t>() % 3) {
    case 0:
      against_server(input);
      break;
    case 1:
      against_client(input);
      break;
    default:
      with_the_secret(input);
  }
  return 0;
}
