#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/little_endian.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;

// A byte no text begins with, and line ends that a text-mode connection would change.
using Magic = std::array<unsigned char, 8>;
constexpr Magic kHelloMagic = {0x89, 'T', 'U', 'T', 'T', 'H', '\r', '\n'};
constexpr Magic kChallengeMagic = {0x89, 'T', 'U', 'T', 'T', 'C', '\r', '\n'};
constexpr Magic kVerdictMagic = {0x89, 'T', 'U', 'T', 'T', 'V', '\r', '\n'};

namespace hello_at {
constexpr std::size_t kVersionField = 8, kKind = 10, kRank = 12, kWorldSize = 16, kPid = 20, kJob = 24, kGroup = 32;
constexpr std::size_t kWants = 40, kReserved = 44, kNonce = 48;
static_assert(kNonce + kNonceBytes == kHelloBytes);
}  // namespace hello_at

namespace challenge_at {
// The server's nonce is the 24 random bytes together with the magic before them.
constexpr std::size_t kRandom = 8, kMac = 32;
static_assert(kMac + kMacBytes == kChallengeBytes);
}  // namespace challenge_at

namespace verdict_at {
constexpr std::size_t kStatus = 8, kReserved = 9, kLength = 10, kText = 12;
constexpr std::size_t kTextLimit = kVerdictBytes - kText;
}  // namespace verdict_at

constexpr std::byte kAccepted{0};
constexpr std::byte kRefused{1};

constexpr char kWrongSecret[] =
    "has another job secret; compare TUTTI_JOB_SECRET (or ~/.config/tutti/job_secret) on both sides";

/// A group may outlive main(), in a global or with its threads running: OpenSSL must not end before it, at exit. Only
/// the first call in a process can say so, hence before any constructor. Each user of OpenSSL in comm links this.
[[gnu::constructor(101)]] void keep_openssl_to_the_end() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

void put_magic(std::span<std::byte> to, const Magic& magic) { std::memcpy(to.data(), magic.data(), magic.size()); }

bool has_magic(std::span<const std::byte> bytes, const Magic& magic) {
  return std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

void fill_random(std::span<std::byte> to) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(to.data()), static_cast<int>(to.size())) != 1) {
    throw Error(ErrorCode::System, "OpenSSL's random generator gave no bytes for a handshake nonce");
  }
}

/// HMAC(secret, label | hello | server nonce); the label keeps one side's proof from being sent back as the other's.
std::array<std::byte, kMacBytes> proof_of(std::string_view secret, std::string_view label,
                                          std::span<const std::byte, kHelloBytes> hello,
                                          std::span<const std::byte, kNonceBytes> server_nonce) {
  std::vector<std::byte> message(label.size() + hello.size() + server_nonce.size());
  std::memcpy(message.data(), label.data(), label.size());
  std::memcpy(message.data() + label.size(), hello.data(), hello.size());
  std::memcpy(message.data() + label.size() + hello.size(), server_nonce.data(), server_nonce.size());
  std::array<std::byte, kMacBytes> mac{};
  unsigned int mac_bytes = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &mac_bytes) == nullptr ||
      mac_bytes != kMacBytes) {
    throw Error(ErrorCode::System, "OpenSSL could not compute HMAC-SHA256");
  }
  return mac;
}

std::string_view kind_name(ConnectionKind kind) {
  switch (kind) {
    case ConnectionKind::Store:
      return "store";
    case ConnectionKind::Collective:
      return "collective";
    case ConnectionKind::Messages:
      return "point-to-point";
    case ConnectionKind::Answers:
      return "answers";
  }
  return "unknown";
}

std::string who(const PeerIdentity& peer) {
  return peer.rank >= 0 ? "rank " + std::to_string(peer.rank) : "the client with pid " + std::to_string(peer.pid);
}

std::string differing(const std::string& what, const std::string& here, const std::string& there,
                      const PeerIdentity& peer) {
  return what + " " + here + " here, " + there + " at " + who(peer);
}

PeerIdentity decode_hello(std::span<const std::byte, kHelloBytes> hello) {
  if (!has_magic(hello, kHelloMagic)) {
    throw Error(ErrorCode::Protocol, "not a Tutti peer: its first bytes are " + quote_bytes(hello));
  }
  const auto version = get_little_endian<std::uint16_t>(&hello[hello_at::kVersionField]);
  if (version != kWireVersion) {
    throw Error(ErrorCode::Protocol, "the peer speaks handshake version " + std::to_string(version) + ", this side " +
                                         std::to_string(kWireVersion) +
                                         ": build both from the same release (first bytes " + quote_bytes(hello) + ")");
  }
  const auto kind = std::to_integer<std::uint8_t>(hello[hello_at::kKind]);
  const bool reserved_clear =
      hello[hello_at::kKind + 1] == std::byte{0} && get_little_endian<std::uint32_t>(&hello[hello_at::kReserved]) == 0;
  PeerIdentity peer;
  peer.kind = static_cast<ConnectionKind>(kind);
  peer.rank = static_cast<std::int32_t>(get_little_endian<std::uint32_t>(&hello[hello_at::kRank]));
  peer.world_size = static_cast<std::int32_t>(get_little_endian<std::uint32_t>(&hello[hello_at::kWorldSize]));
  peer.pid = get_little_endian<std::uint32_t>(&hello[hello_at::kPid]);
  peer.job = get_little_endian<std::uint64_t>(&hello[hello_at::kJob]);
  peer.group = get_little_endian<std::uint64_t>(&hello[hello_at::kGroup]);
  peer.wants = static_cast<std::int32_t>(get_little_endian<std::uint32_t>(&hello[hello_at::kWants]) - 1);
  if (kind < 1 || kind > 4 || !reserved_clear || peer.world_size < -1 || peer.world_size == 0 || peer.rank < -1 ||
      peer.wants < -1) {
    throw Error(ErrorCode::Protocol, "a malformed Tutti hello (connection kind " + std::to_string(kind) + ", rank " +
                                         std::to_string(peer.rank) + ", world size " + std::to_string(peer.world_size) +
                                         "; first bytes " + quote_bytes(hello) + ")");
  }
  return peer;
}

}  // namespace

std::string disagreement(const PeerIdentity& self, const PeerIdentity& peer) {
  if (peer.job != self.job) {
    return differing("job", hex(self.job), hex(peer.job), peer) +
           " (hashes of the job ids): another job's process came to this port; compare TUTTI_JOB_ID and the port";
  }
  if ((peer.kind == ConnectionKind::Store) != (self.kind == ConnectionKind::Store)) {
    return differing("connection kind", std::string(kind_name(self.kind)), std::string(kind_name(peer.kind)), peer);
  }
  if (peer.world_size != self.world_size && peer.world_size != -1 && self.world_size != -1) {
    return differing("world size", std::to_string(self.world_size), std::to_string(peer.world_size), peer);
  }
  if (peer.group != self.group) {
    return differing("group", hex(self.group), hex(peer.group), peer) + " (hashes of the group names)";
  }
  if (peer.wants != -1 && self.rank != -1 && peer.wants != self.rank) {
    return who(peer) + " wants to reach rank " + std::to_string(peer.wants) + ", but this is rank " +
           std::to_string(self.rank) + ": its connection was led astray, or its table of addresses is wrong";
  }
  const std::int32_t world_size = peer.world_size != -1 ? peer.world_size : self.world_size;
  if (peer.rank < -1 || (world_size != -1 && peer.rank >= world_size)) {
    return "rank " + std::to_string(peer.rank) + " does not exist in a world of size " + std::to_string(world_size);
  }
  return {};
}

std::uint64_t identity_hash(std::string_view text) {
  std::array<std::byte, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return get_little_endian<std::uint64_t>(digest.data());
}

bool may_be_hello(std::span<const std::byte> first_bytes) {
  const std::size_t known = std::min(first_bytes.size(), kHelloMagic.size());
  return known == 0 || std::memcmp(first_bytes.data(), kHelloMagic.data(), known) == 0;
}

ClientHandshake::ClientHandshake(const PeerIdentity& self, std::string_view job_secret) : secret_(job_secret) {
  put_magic(hello_, kHelloMagic);
  put_little_endian(&hello_[hello_at::kVersionField], kWireVersion);
  hello_[hello_at::kKind] = static_cast<std::byte>(self.kind);
  put_little_endian(&hello_[hello_at::kRank], static_cast<std::uint32_t>(self.rank));
  put_little_endian(&hello_[hello_at::kWorldSize], static_cast<std::uint32_t>(self.world_size));
  put_little_endian(&hello_[hello_at::kPid], self.pid);
  put_little_endian(&hello_[hello_at::kJob], self.job);
  put_little_endian(&hello_[hello_at::kGroup], self.group);
  put_little_endian(&hello_[hello_at::kWants], static_cast<std::uint32_t>(self.wants) + 1);
  fill_random(std::span(hello_).last<kNonceBytes>());
}

std::array<std::byte, kProofBytes> ClientHandshake::answer(
    std::span<const std::byte, kChallengeBytes> challenge) const {
  if (!has_magic(challenge, kChallengeMagic)) {
    throw Error(ErrorCode::Protocol,
                "not a Tutti server of this version: its first bytes are " + quote_bytes(challenge));
  }
  const auto nonce = challenge.first<kNonceBytes>();
  const auto expected = proof_of(secret_, "server", hello_, nonce);
  if (CRYPTO_memcmp(expected.data(), &challenge[challenge_at::kMac], kMacBytes) != 0) {
    throw Error(ErrorCode::Unauthorized, std::string("the server ") + kWrongSecret);
  }
  return proof_of(secret_, "client", hello_, nonce);
}

void ClientHandshake::finish(std::span<const std::byte, kVerdictBytes> verdict) const {
  const auto text_bytes = get_little_endian<std::uint16_t>(&verdict[verdict_at::kLength]);
  const std::byte status = verdict[verdict_at::kStatus];
  if (!has_magic(verdict, kVerdictMagic) || verdict[verdict_at::kReserved] != std::byte{0} ||
      text_bytes > verdict_at::kTextLimit || (status != kAccepted && status != kRefused)) {
    throw Error(ErrorCode::Protocol, "these bytes are no handshake verdict: " + quote_bytes(verdict));
  }
  if (status == kAccepted) return;
  const std::string_view text(reinterpret_cast<const char*>(&verdict[verdict_at::kText]), text_bytes);
  throw Error(ErrorCode::Unauthorized, "the server refused this connection: " + printable(text));
}

ServerHandshake::ServerHandshake(const PeerIdentity& self, std::string_view job_secret)
    : self_(self), secret_(job_secret) {}

std::array<std::byte, kChallengeBytes> ServerHandshake::challenge(std::span<const std::byte, kHelloBytes> hello) {
  peer_ = decode_hello(hello);
  std::copy(hello.begin(), hello.end(), hello_.begin());
  put_magic(nonce_, kChallengeMagic);
  fill_random(std::span(nonce_).subspan<challenge_at::kRandom>());
  challenged_ = true;
  std::array<std::byte, kChallengeBytes> message{};
  std::copy(nonce_.begin(), nonce_.end(), message.begin());
  const auto mac = proof_of(secret_, "server", hello_, nonce_);
  std::copy(mac.begin(), mac.end(), message.begin() + challenge_at::kMac);
  return message;
}

bool ServerHandshake::proves(std::span<const std::byte, kProofBytes> proof) const {
  const auto expected = proof_of(secret_, "client", hello_, nonce_);
  return challenged_ && CRYPTO_memcmp(expected.data(), proof.data(), kMacBytes) == 0;
}

std::array<std::byte, kVerdictBytes> ServerHandshake::verdict(std::span<const std::byte, kProofBytes> proof,
                                                              const std::string& objection) {
  // A nonce is good for one proof; without a challenge there is none.
  const bool proven = proves(proof);
  challenged_ = false;
  refusal_ = proven ? disagreement(self_, peer_) : who(peer_) + " " + kWrongSecret;
  if (proven && refusal_.empty()) refusal_ = objection;
  accepted_ = refusal_.empty();

  std::array<std::byte, kVerdictBytes> message{};
  const std::size_t text_bytes = std::min(refusal_.size(), verdict_at::kTextLimit);
  put_magic(message, kVerdictMagic);
  message[verdict_at::kStatus] = accepted_ ? kAccepted : kRefused;
  put_little_endian(&message[verdict_at::kLength], static_cast<std::uint16_t>(text_bytes));
  std::memcpy(&message[verdict_at::kText], refusal_.data(), text_bytes);
  return message;
}

}  // namespace tutti::comm
