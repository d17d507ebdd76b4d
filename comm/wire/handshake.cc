#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;

// A byte no text begins with, and line ends that a text-mode connection would change.
using Magic = std::array<unsigned char, 8>;
constexpr Magic kHelloMagic = {0x89, 'T', 'U', 'T', 'T', 'H', '\r', '\n'};
constexpr Magic kChallengeMagic = {0x89, 'T', 'U', 'T', 'T', 'C', '\r', '\n'};
constexpr Magic kVerdictMagic = {0x89, 'T', 'U', 'T', 'T', 'V', '\r', '\n'};

// The messages as they travel: wire_format.md, "Handshake".

struct Hello {
  Magic magic = kHelloMagic;
  PeerIdentity client;
  std::array<std::byte, kNonceBytes> nonce{};
};
static_assert(sizeof(Hello) == kHelloBytes);

struct Challenge {
  std::array<std::byte, kNonceBytes> nonce{};  // the magic, and 24 random bytes
  std::array<std::byte, kMacBytes> mac{};
};
static_assert(sizeof(Challenge) == kChallengeBytes);

struct Verdict {
  Magic magic = kVerdictMagic;
  std::byte status{};
  std::byte reserved{};
  std::uint16_t length = 0;
  std::array<char, 244> text{};
};
static_assert(sizeof(Verdict) == kVerdictBytes);
static_assert(std::endian::native == std::endian::little, "the wire is little endian; swap here for another host");

template <typename Message, std::size_t N>
Message message_of(std::span<const std::byte, N> bytes) {
  Message message;
  static_assert(sizeof message == N);
  std::memcpy(&message, bytes.data(), N);
  return message;
}

constexpr std::byte kAccepted{0};
constexpr std::byte kRefused{1};

constexpr char kWrongSecret[] =
    "has another job secret; compare TUTTI_JOB_SECRET (or ~/.config/tutti/job_secret) on both sides";

/// A group may outlive main(), in a global or with its threads running: OpenSSL must not end before it, at exit. Only
/// the first call in a process can say so, hence before any constructor. Each user of OpenSSL in comm links this.
[[gnu::constructor(101)]] void keep_openssl_to_the_end() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

void fill_random(std::span<std::byte> to) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(to.data()), static_cast<int>(to.size())) != 1) {
    throw Error(ErrorCode::System, "OpenSSL's random generator gave no bytes for a handshake nonce");
  }
}

/// HMAC(secret, label | hello | server nonce); the label keeps one side's proof from being sent back as the other's.
std::array<std::byte, kMacBytes> proof_of(std::string_view secret, std::string_view label,
                                          std::span<const std::byte, kHelloBytes> hello,
                                          std::span<const std::byte, kNonceBytes> server_nonce) {
  std::string message(label);
  message.append(reinterpret_cast<const char*>(hello.data()), hello.size());
  message.append(reinterpret_cast<const char*>(server_nonce.data()), server_nonce.size());
  return std::bit_cast<std::array<std::byte, kMacBytes>>(mac_of(message, secret));
}

std::string name_of(ConnectionKind kind) {
  static constexpr const char* kNames[] = {"unknown", "store", "collective", "point-to-point", "answers"};
  return kNames[kind > ConnectionKind::Answers ? 0 : static_cast<std::size_t>(kind)];
}

std::string who(const PeerIdentity& peer) {
  return peer.rank >= 0 ? "rank " + std::to_string(peer.rank) : "the client with pid " + std::to_string(peer.pid);
}

std::string differing(const std::string& what, const std::string& here, const std::string& there,
                      const PeerIdentity& peer) {
  return what + " " + here + " here, " + there + " at " + who(peer);
}

PeerIdentity decode_hello(std::span<const std::byte, kHelloBytes> bytes) {
  const auto hello = message_of<Hello>(bytes);
  if (hello.magic != kHelloMagic) {
    throw Error(ErrorCode::Protocol, "not a Tutti peer: its first bytes are ", quote_bytes(bytes));
  }
  const PeerIdentity& peer = hello.client;
  if (peer.version != kWireVersion) {
    throw Error(ErrorCode::Protocol, "the peer speaks handshake version ", peer.version, ", this side ", kWireVersion,
                ": build both from the same release (first bytes ", quote_bytes(bytes), ")");
  }
  if (peer.kind < ConnectionKind::Store || peer.kind > ConnectionKind::Answers || peer.reserved != 0 ||
      peer.reserved_too != 0 || peer.world_size < -1 || peer.world_size == 0 || peer.rank < -1 || peer.wants < -1) {
    throw Error(ErrorCode::Protocol, "a malformed Tutti hello (connection kind ", static_cast<int>(peer.kind),
                ", rank ", peer.rank, ", world size ", peer.world_size, "; first bytes ", quote_bytes(bytes), ")");
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
    return differing("connection kind", name_of(self.kind), name_of(peer.kind), peer);
  }
  if (peer.world_size != self.world_size && peer.world_size != -1 && self.world_size != -1) {
    return differing("world size", std::to_string(self.world_size), std::to_string(peer.world_size), peer);
  }
  if (peer.group != self.group) {
    return differing("group", hex(self.group), hex(peer.group), peer) + " (hashes of the group names)";
  }
  if (peer.wants != -1 && self.rank != -1 && peer.wants != self.rank) {
    return joined(who(peer), " wants to reach rank ", peer.wants, ", but this is rank ", self.rank,
                  ": its connection was led astray, or its table of addresses is wrong");
  }
  const std::int32_t world_size = peer.world_size != -1 ? peer.world_size : self.world_size;
  if (peer.rank < -1 || (world_size != -1 && peer.rank >= world_size)) {
    return joined("rank ", peer.rank, " does not exist in a world of size ", world_size);
  }
  return {};
}

std::array<unsigned char, 32> mac_of(std::string_view text, std::string_view secret) {
  std::array<unsigned char, kMacBytes> mac;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), nullptr) == nullptr)
    throw Error(ErrorCode::System, "OpenSSL could not compute HMAC-SHA256");
  return mac;
}

std::uint64_t identity_hash(std::string_view text) {
  std::array<std::byte, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return message_of<std::uint64_t>(std::span<const std::byte>(digest).first<sizeof(std::uint64_t)>());
}

bool may_be_hello(std::span<const std::byte> first_bytes) {
  const std::size_t known = std::min(first_bytes.size(), kHelloMagic.size());
  return known == 0 || std::memcmp(first_bytes.data(), kHelloMagic.data(), known) == 0;
}

ClientHandshake::ClientHandshake(const PeerIdentity& self, std::string_view job_secret) : secret_(job_secret) {
  Hello hello{.client = self};
  fill_random(hello.nonce);
  hello_ = std::bit_cast<std::array<std::byte, kHelloBytes>>(hello);
}

std::array<std::byte, kProofBytes> ClientHandshake::answer(std::span<const std::byte, kChallengeBytes> bytes) const {
  const auto challenge = message_of<Challenge>(bytes);
  if (std::memcmp(&challenge, kChallengeMagic.data(), kChallengeMagic.size()) != 0) {
    throw Error(ErrorCode::Protocol, "not a Tutti server of this version: its first bytes are ", quote_bytes(bytes));
  }
  const auto expected = proof_of(secret_, "server", hello_, challenge.nonce);
  if (CRYPTO_memcmp(expected.data(), challenge.mac.data(), kMacBytes) != 0) {
    throw Error(ErrorCode::Unauthorized, "the server ", kWrongSecret);
  }
  return proof_of(secret_, "client", hello_, challenge.nonce);
}

void ClientHandshake::finish(std::span<const std::byte, kVerdictBytes> bytes) const {
  const auto verdict = message_of<Verdict>(bytes);
  if (verdict.magic != kVerdictMagic || verdict.reserved != std::byte{0} || verdict.length > verdict.text.size() ||
      (verdict.status != kAccepted && verdict.status != kRefused)) {
    throw Error(ErrorCode::Protocol, "these bytes are no handshake verdict: ", quote_bytes(bytes));
  }
  if (verdict.status == kAccepted) return;
  const std::string_view text(verdict.text.data(), verdict.length);
  throw Error(ErrorCode::Unauthorized, "the server refused this connection: ", printable(text));
}

ServerHandshake::ServerHandshake(const PeerIdentity& self, std::string_view job_secret)
    : self_(self), secret_(job_secret) {}

std::array<std::byte, kChallengeBytes> ServerHandshake::challenge(std::span<const std::byte, kHelloBytes> hello) {
  peer_ = decode_hello(hello);
  std::copy(hello.begin(), hello.end(), hello_.begin());
  std::memcpy(nonce_.data(), kChallengeMagic.data(), kChallengeMagic.size());
  fill_random(std::span(nonce_).subspan<kChallengeMagic.size()>());
  challenged_ = true;
  return std::bit_cast<std::array<std::byte, kChallengeBytes>>(
      Challenge{nonce_, proof_of(secret_, "server", hello_, nonce_)});
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

  Verdict message{.status = accepted_ ? kAccepted : kRefused};
  message.length = static_cast<std::uint16_t>(refusal_.copy(message.text.data(), message.text.size()));
  return std::bit_cast<std::array<std::byte, kVerdictBytes>>(message);
}

}  // namespace tutti::comm
