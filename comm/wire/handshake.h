// The authenticated handshake that opens every connection: store and data, all transports that use sockets.
//
// Pure state machines over fixed-size messages: no I/O, no clock, no allocation from received lengths. Both sides prove
// the job secret by HMAC-SHA256 over both nonces and the hello before anything else is said (challenge-response, so a
// recorded conversation cannot be replayed):
//
//   client -> server   hello      magic, version, identity, client nonce
//   server -> client   challenge  server nonce, HMAC(secret, "server" | hello | server nonce)
//   client -> server   proof      HMAC(secret, "client" | hello | server nonce); zeros if the challenge's was wrong
//   server -> client   verdict    status, text (which of job id, world size, group differs, with both values)
//
// Byte layout: wire_format.md. Thread-safety: one object belongs to one connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::comm {

enum class ConnectionKind : std::uint8_t { Store = 1, Collective = 2, Messages = 3, Answers = 4 };

inline constexpr std::uint16_t kWireVersion = 1;  // of all that ranks send each other

/// The process that opens the connection, as its hello has it. rank and world_size are -1 for a client that is no rank
/// (a launcher, a tool).
struct PeerIdentity {
  std::uint16_t version = kWireVersion;
  ConnectionKind kind = ConnectionKind::Store;
  std::uint8_t reserved = 0;
  std::int32_t rank = -1;
  std::int32_t world_size = -1;
  std::uint32_t pid = 0;
  std::uint64_t job = 0;    // identity_hash(job id)
  std::uint64_t group = 0;  // identity_hash(group name); 0 for the store
  std::int32_t wants = -1;  // the rank that it means to reach; -1: any
  std::uint32_t reserved_too = 0;
};
static_assert(sizeof(PeerIdentity) == 40);

/// Why `peer` may not talk to `self`: job, kind (all but the store's are alike), world size, group, rank. Empty if it
/// may.
std::string disagreement(const PeerIdentity& self, const PeerIdentity& peer);

/// First 8 bytes of SHA-256, little endian.
std::uint64_t identity_hash(std::string_view text);

/// HMAC-SHA256. Throws System.
std::array<unsigned char, 32> mac_of(std::string_view text, std::string_view secret);

inline constexpr std::size_t kHelloBytes = 80;
inline constexpr std::size_t kChallengeBytes = 64;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kVerdictBytes = 256;

/// What a client sends before it leaves a server that does not know its secret: never right, and the server can name
/// the reason. A client that closes after the challenge has ended, or has another connection to the same server.
inline constexpr std::array<std::byte, kProofBytes> kNoProof{};

/// False as soon as the first bytes of a connection (fewer than kHelloBytes will do) cannot begin a Tutti hello: a
/// stranger can be closed before it has sent a hello's length.
bool may_be_hello(std::span<const std::byte> first_bytes);

/// The connecting side. Send hello(); feed the challenge, send the proof it returns; feed the verdict.
class ClientHandshake {
 public:
  ClientHandshake(const PeerIdentity& self, std::string_view job_secret);

  std::array<std::byte, kHelloBytes> hello() const { return hello_; }

  /// Throws Unauthorized if the server does not know our secret (send kNoProof), Protocol if these are no challenge
  /// bytes.
  std::array<std::byte, kProofBytes> answer(std::span<const std::byte, kChallengeBytes> challenge) const;

  /// Throws Unauthorized with the server's text if it refused us.
  void finish(std::span<const std::byte, kVerdictBytes> verdict) const;

 private:
  std::string secret_;
  std::array<std::byte, kHelloBytes> hello_{};
};

/// The accepting side. Feed the hello, send the challenge; feed the proof, send the verdict; then ask accepted().
class ServerHandshake {
 public:
  /// `self` is what the peer must agree with: store or data kind (the two data lanes share a listener), job, group,
  /// world_size (a peer or a self with world_size -1 agrees with any), and that this is the rank that the peer wants.
  ServerHandshake(const PeerIdentity& self, std::string_view job_secret);

  /// Throws Protocol, quoting the first bytes in hex, if these are not the bytes of a Tutti hello of this version.
  std::array<std::byte, kChallengeBytes> challenge(std::span<const std::byte, kHelloBytes> hello);

  /// Whether `proof` is right, for a server that must authenticate the peer before it can say what it expects. The
  /// challenge stays good for verdict().
  bool proves(std::span<const std::byte, kProofBytes> proof) const;

  /// What the peer must agree with, now that its hello has told which group it comes for. Between challenge() and
  /// verdict().
  void expect(const PeerIdentity& self) { self_ = self; }

  /// Answers any proof with a verdict to send; close the connection after one that refused. A challenge is good for one
  /// proof. Nothing about job, group or sizes is told to a peer that has not proved the secret. A right proof is
  /// refused with `objection` if that is not empty and there is nothing else to object to.
  std::array<std::byte, kVerdictBytes> verdict(std::span<const std::byte, kProofBytes> proof,
                                               const std::string& objection = {});

  bool accepted() const { return accepted_; }
  const PeerIdentity& peer() const { return peer_; }       // meaningful after challenge()
  const std::string& refusal() const { return refusal_; }  // why, after a verdict that refused

 private:
  PeerIdentity self_;
  std::string secret_;
  std::array<std::byte, kHelloBytes> hello_{};
  std::array<std::byte, 32> nonce_{};
  PeerIdentity peer_;
  bool challenged_ = false;
  bool accepted_ = false;
  std::string refusal_;
};

}  // namespace tutti::comm
