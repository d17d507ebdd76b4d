#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/handshake.h>

#include <algorithm>
#include <random>

namespace tutti::comm {
namespace {

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
  EXPECT_NE(converse(server_of(4), rank_of(1, 2)).find("world size 4 here, 2 at rank 1"), std::string::npos);

  PeerIdentity other_job = rank_of(1, 4);
  other_job.job = 0x1234;
  const std::string job_text = converse(server_of(4), other_job);
  EXPECT_NE(job_text.find("0x0000000000001234 at rank 1"), std::string::npos) << job_text;
  EXPECT_NE(job_text.find("TUTTI_JOB_ID"), std::string::npos) << job_text;

  PeerIdentity other_group = rank_of(1, 4);
  other_group.group = 0x77;
  EXPECT_NE(converse(server_of(4), other_group).find("group 0x0000000000000000 here, 0x0000000000000077 at rank 1"),
            std::string::npos);

  PeerIdentity other_kind = rank_of(1, 4);
  other_kind.kind = ConnectionKind::Collective;
  EXPECT_NE(converse(server_of(4), other_kind).find("connection kind store here, collective at rank 1"),
            std::string::npos);

  EXPECT_NE(converse(server_of(-1), rank_of(5, 4)).find("rank 5 does not exist in a world of size 4"),
            std::string::npos);
  EXPECT_NE(converse(server_of(4), rank_of(5, -1)).find("rank 5 does not exist in a world of size 4"),
            std::string::npos);
}

TEST(Handshake, ClientRejectsAServerWithAnotherSecret) {
  ClientHandshake client(rank_of(0, 1), "one secret");
  ServerHandshake server(server_of(1), "another secret");
  try {
    client.answer(server.challenge(client.hello()));
    FAIL() << "a server with another secret was believed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
    EXPECT_NE(std::string(error.what()).find("compare TUTTI_JOB_SECRET"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find("one secret"), std::string::npos);
  }
}

TEST(Handshake, ServerRefusesAClientWithAnotherSecretAndTellsItNothingElse) {
  ClientHandshake client(rank_of(0, 3), kSecret);
  ServerHandshake server(server_of(5), kSecret);  // the world sizes differ too; a stranger must not learn that
  auto proof = client.answer(server.challenge(client.hello()));
  proof[7] ^= std::byte{1};
  const auto verdict = server.verdict(proof);
  EXPECT_FALSE(server.accepted());
  try {
    client.finish(verdict);
    FAIL() << "a wrong proof was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unauthorized);
    EXPECT_NE(std::string(error.what()).find("compare TUTTI_JOB_SECRET"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find("world size"), std::string::npos);
  }
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
  ServerHandshake server(server_of(1), kSecret);
  try {
    server.challenge(request);
    FAIL() << "an HTTP request was taken for a hello";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Protocol);
    EXPECT_NE(std::string(error.what()).find("47 45 54 20 2f"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("GET / HTTP"), std::string::npos) << error.what();
  }
}

TEST(Handshake, OtherVersionIsNamed) {
  auto hello = ClientHandshake(rank_of(0, 1), kSecret).hello();
  hello[8] = std::byte{9};
  try {
    ServerHandshake(server_of(1), kSecret).challenge(hello);
    FAIL() << "version 9 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Protocol);
    EXPECT_NE(std::string(error.what()).find("version 9, this side 1"), std::string::npos) << error.what();
  }
}

TEST(Handshake, NonChallengesAndNonVerdictsAreProtocolErrors) {
  const ClientHandshake client(rank_of(0, 1), kSecret);
  try {
    client.answer(std::array<std::byte, kChallengeBytes>{});
    FAIL() << "zeros were taken for a challenge";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Protocol);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::array<std::byte, kVerdictBytes> noise;
    for (std::byte& b : noise) b = static_cast<std::byte>(random() & 0xff);
    try {
      client.finish(noise);
      FAIL() << "noise was taken for a verdict";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Protocol);
    }
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
                                                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(hello[i]), golden[i]) << "byte " << i;
  }
  const auto other = ClientHandshake(identity, kSecret).hello();
  EXPECT_FALSE(std::equal(hello.begin() + 48, hello.end(), other.begin() + 48)) << "the nonce repeats";
}

}  // namespace
}  // namespace tutti::comm
