#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/handshake.h>

#include <algorithm>
#include <random>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;

constexpr char kSecret[] = "correct horse";

PeerIdentity rank_of(int rank, int world_size) {
  PeerIdentity identity;
  identity.kind = ConnectionKind::Store;
  identity.rank = rank;
  identity.world_size = world_size;
  identity.pid = 4711;
  identity.job = identity_hash("job");
  return identity;
}

PeerIdentity server_of(int world_size) { return rank_of(-1, world_size); }

/// Runs a whole conversation; returns the error that ended it on the client's side, or "".
std::string converse(const PeerIdentity& server_identity, const PeerIdentity& client_identity,
                     ServerHandshake* used = nullptr) {
  ClientHandshake client(client_identity, kSecret);
  ServerHandshake server(server_identity, kSecret);
  const auto verdict = server.verdict(client.answer(server.challenge(client.hello())));
  if (used != nullptr) *used = server;
  try {
    client.finish(verdict);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
    EXPECT_FALSE(server.accepted());
    return error.what();
  }
  EXPECT_TRUE(server.accepted());
  return {};
}

TEST(Handshake, AcceptsAPeerThatAgreesAndKnowsWhoItIs) {
  ServerHandshake server(server_of(-1), "");
  EXPECT_EQ(converse(server_of(4), rank_of(3, 4), &server), "");
  EXPECT_EQ(server.peer().rank, 3);
  EXPECT_EQ(server.peer().world_size, 4);
  EXPECT_EQ(server.peer().pid, 4711u);
  EXPECT_EQ(server.peer().job, identity_hash("job"));
}

TEST(Handshake, UnknownWorldSizeAgreesWithAny) {
  EXPECT_EQ(converse(server_of(-1), rank_of(1, 2)), "");
  EXPECT_EQ(converse(server_of(4), rank_of(-1, -1)), "");
}

TEST(Handshake, DisagreementsNameBothValues) {
  expect_parts(converse(server_of(4), rank_of(1, 2)), {"world size 4 here, 2 at rank 1"});
  PeerIdentity other = rank_of(1, 4);
  other.job = 0x1234;
  expect_parts(converse(server_of(4), other), {"0x0000000000001234 at rank 1", "TUTTI_JOB_ID"});
  other = rank_of(1, 4);
  other.group = 0x77;
  expect_parts(converse(server_of(4), other), {"group 0x0000000000000000 here, 0x0000000000000077 at rank 1"});
  other = rank_of(1, 4);
  other.kind = ConnectionKind::Collective;
  expect_parts(converse(server_of(4), other), {"connection kind store here, collective at rank 1"});
  expect_parts(converse(server_of(-1), rank_of(5, 4)), {"rank 5 does not exist in a world of size 4"});
  expect_parts(converse(server_of(4), rank_of(5, -1)), {"rank 5 does not exist in a world of size 4"});
}

TEST(Handshake, ClientRejectsAServerWithAnotherSecret) {
  ClientHandshake client(rank_of(0, 1), "one secret");
  ServerHandshake server(server_of(1), "another secret");
  const std::string text = text_of(ErrorCode::Unauthorized, [&] { client.answer(server.challenge(client.hello())); });
  expect_parts(text, {"compare TUTTI_JOB_SECRET"});
  expect_absent(text, {"one secret"});
}

TEST(Handshake, ServerRefusesAClientWithAnotherSecretAndTellsItNothingElse) {
  ClientHandshake client(rank_of(0, 3), kSecret);
  ServerHandshake server(server_of(5), kSecret);  // the world sizes differ too; a stranger must not learn that
  auto proof = client.answer(server.challenge(client.hello()));
  proof[7] ^= std::byte{1};
  const auto verdict = server.verdict(proof);
  EXPECT_FALSE(server.accepted());
  const std::string text = text_of(ErrorCode::Unauthorized, [&] { client.finish(verdict); });
  expect_parts(text, {"compare TUTTI_JOB_SECRET"});
  expect_absent(text, {"world size"});
}

TEST(Handshake, RecordedConversationCannotBeReplayed) {
  ClientHandshake client(rank_of(0, 1), kSecret);
  ServerHandshake recorded(server_of(1), kSecret);
  const auto hello = client.hello();
  const auto proof = client.answer(recorded.challenge(hello));
  recorded.verdict(proof);
  ASSERT_TRUE(recorded.accepted());

  ServerHandshake fresh(server_of(1), kSecret);
  fresh.challenge(hello);
  fresh.verdict(proof);
  EXPECT_FALSE(fresh.accepted());

  recorded.verdict(proof);  // the same proof again, without a new challenge
  EXPECT_FALSE(recorded.accepted());
}

TEST(Handshake, ServersProofSentBackIsNoClientsProof) {
  ClientHandshake client(rank_of(0, 1), kSecret);
  ServerHandshake server(server_of(1), kSecret);
  const auto challenge = server.challenge(client.hello());
  server.verdict(std::span(challenge).last<kProofBytes>());
  EXPECT_FALSE(server.accepted());
}

TEST(Handshake, ProofBeforeAChallengeIsRefused) {
  ServerHandshake server(server_of(1), kSecret);
  server.verdict(std::array<std::byte, kProofBytes>{});
  EXPECT_FALSE(server.accepted());
}

TEST(Handshake, StrangersBytesAreQuotedInHex) {
  std::array<std::byte, kHelloBytes> request{};
  const std::string_view text = "GET / HTTP/1.1\r\n";
  std::transform(text.begin(), text.end(), request.begin(), [](char c) { return static_cast<std::byte>(c); });
  expect_error(ErrorCode::Protocol, {"47 45 54 20 2f", "GET / HTTP"},
               [&] { ServerHandshake(server_of(1), kSecret).challenge(request); });
}

TEST(Handshake, OtherVersionIsNamed) {
  auto hello = ClientHandshake(rank_of(0, 1), kSecret).hello();
  hello[8] = std::byte{9};
  expect_error(ErrorCode::Protocol, {"version 9, this side 1"},
               [&] { ServerHandshake(server_of(1), kSecret).challenge(hello); });
}

TEST(Handshake, NonChallengesAndNonVerdictsAreProtocolErrors) {
  const ClientHandshake client(rank_of(0, 1), kSecret);
  text_of(ErrorCode::Protocol, [&] { client.answer(std::array<std::byte, kChallengeBytes>{}); });
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::array<std::byte, kVerdictBytes> noise;
    for (std::byte& b : noise) b = static_cast<std::byte>(random() & 0xff);
    text_of(ErrorCode::Protocol, [&] { client.finish(noise); });
  }
}

TEST(Handshake, HelloHasTheDocumentedBytes) {
  PeerIdentity identity = rank_of(1, 4);
  identity.pid = 0x01020304;
  identity.job = identity_hash("default");
  const auto hello = ClientHandshake(identity, kSecret).hello();
  // The example of wire_format.md, section "Handshake"; the last 32 bytes are the nonce.
  const std::array<unsigned char, 48> golden = {0x89, 'T',  'U',  'T',  'T',  'H',  0x0d, 0x0a, 0x01, 0x00, 0x01, 0x00,
                                                0x01, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x04, 0x03, 0x02, 0x01,
                                                0x37, 0xa8, 0xee, 0xc1, 0xce, 0x19, 0x68, 0x7d, 0x00, 0x00, 0x00, 0x00,
                                                0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00};
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(hello[i]), golden[i]) << "byte " << i;
  }
  const auto other = ClientHandshake(identity, kSecret).hello();
  EXPECT_FALSE(std::equal(hello.begin() + 48, hello.end(), other.begin() + 48)) << "the nonce repeats";
}

}  // namespace
}  // namespace tutti::comm
