// TlsContext: what all encrypted connections of a process have in common: TLS 1.3 with a pre-shared key and nothing
// else.
//
// Key exchange psk_dhe_ke over X25519 (a secret that leaks later opens no recording), TLS_AES_128_GCM_SHA256, no
// certificates, no tickets, no resumption, no early data. An external PSK per RFC 8446, section 4.2.11; the key is
// derived per group by HKDF (RFC 5869) from the job secret. Bytes: wire_format.md.
//
// Thread-safety: may be shared by threads once constructed; it must outlive its TlsSessions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct ssl_ctx_st;

namespace tutti::comm {

using TlsKey = std::array<std::byte, 32>;

/// HKDF-SHA256 of the secret, for one group (identity_hash of its name) of one job.
TlsKey tls_key(std::string_view job_secret, std::string_view job_id, std::uint64_t group);

/// The client's identity in the clear, which names its key: "tutti-1/<job>/<group>", both hashes in hex.
std::string tls_identity(std::uint64_t job, std::uint64_t group);

/// Job and group of an identity; nothing if it is none.
struct TlsIdentity {
  std::uint64_t job = 0;
  std::uint64_t group = 0;
};
std::optional<TlsIdentity> parse_tls_identity(std::string_view text);

class TlsContext {
 public:
  /// Throws InvalidArgument, saying how to get one, if the secret is empty; System if OpenSSL fails.
  TlsContext(std::string job_secret, std::string job_id);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  std::uint64_t job() const { return job_; }
  TlsKey key(std::uint64_t group) const { return tls_key(job_secret_, job_id_, group); }
  ssl_ctx_st* native() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };

  const std::string job_secret_;
  const std::string job_id_;
  const std::uint64_t job_;
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

/// Throws System with OpenSSL's words for its latest error, and forgets it.
[[noreturn]] void throw_tls_system_error(const std::string& what);

}  // namespace tutti::comm
