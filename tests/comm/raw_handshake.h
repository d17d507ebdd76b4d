// Handshakes on raw connections, for tests of what comes to a port: each side's bytes as text, and a whole handshake.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/handshake.h>

#include <array>
#include <cstddef>
#include <string>

#include "store_test_support.h"

namespace tutti::comm::test {

template <std::size_t N>
std::string text(const std::array<std::byte, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

template <std::size_t N>
std::array<std::byte, N> bytes(const std::string& text) {
  std::array<std::byte, N> result;
  for (std::size_t i = 0; i < N; ++i) result[i] = static_cast<std::byte>(text[i]);
  return result;
}

/// Sends the hello and, whatever the challenge holds, the proof for it; returns what the verdict says, or "accepted".
inline std::string shake_hands(RawConnection& connection, const PeerIdentity& self, const std::string& secret) {
  const ClientHandshake handshake(self, secret);
  connection.send(text(handshake.hello()));
  connection.send(text(handshake.answer(bytes<kChallengeBytes>(connection.receive(kChallengeBytes)))));
  try {
    handshake.finish(bytes<kVerdictBytes>(connection.receive(kVerdictBytes)));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// Shakes hands, and sends the same bytes once more on a second connection, which must be refused as unauthorized: the
/// text of the refusal.
inline std::string replay_handshake(std::uint16_t port, const PeerIdentity& self, const std::string& secret) {
  const ClientHandshake recorded(self, secret);
  std::string proof;
  {
    RawConnection first(port);
    first.send(text(recorded.hello()));
    proof = text(recorded.answer(bytes<kChallengeBytes>(first.receive(kChallengeBytes))));
    first.send(proof);
    EXPECT_NO_THROW(recorded.finish(bytes<kVerdictBytes>(first.receive(kVerdictBytes))));
  }
  RawConnection replay(port);
  replay.send(text(recorded.hello()) + proof);
  replay.receive(kChallengeBytes);
  const auto verdict = bytes<kVerdictBytes>(replay.receive(kVerdictBytes));
  const std::string refusal = text_of(ErrorCode::Unauthorized, [&] { recorded.finish(verdict); });
  EXPECT_TRUE(replay.closed_by_peer());
  return refusal;
}

}  // namespace tutti::comm::test
