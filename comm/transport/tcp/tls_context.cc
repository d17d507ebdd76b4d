#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>

namespace tutti::comm {
namespace {

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr char kGroup[] = "X25519";
constexpr std::string_view kLabel{"tutti tls psk 1\0", 16};

unsigned put(const TlsKey& key, std::span<unsigned char> into) {
  if (into.size() < key.size()) return 0;
  std::ranges::copy(std::as_bytes(std::span(key)), std::as_writable_bytes(into).begin());
  return static_cast<unsigned>(key.size());
}

unsigned offer_key(SSL* ssl, const char* /*hint*/, char* identity, unsigned identity_bytes, unsigned char* key,
                   unsigned key_bytes) {
  const TlsContext& context = static_cast<TlsSession*>(SSL_get_app_data(ssl))->context();
  if (context.identity().size() >= identity_bytes) return 0;
  *std::ranges::copy(context.identity(), identity).out = '\0';
  return put(context.key(), {key, key_bytes});
}

/// No key for an identity of another job: the handshake then ends for want of a certificate.
unsigned find_key(SSL* ssl, const char* identity, unsigned char* key, unsigned key_bytes) {
  auto& session = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  return session.accept_identity(identity) ? put(session.context().key(), {key, key_bytes}) : 0;
}

}  // namespace

void throw_tls_system_error(const std::string& what) {
  char text[256] = "no reason given";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  throw Error(ErrorCode::System, what + ": " + text);
}

TlsKey tls_key(std::string_view job_secret, std::string_view job_id) {
  std::string info(kLabel);
  info += job_id;
  info += '\x01';  // HKDF-Expand's number of the block: the first and only one
  TlsKey key{};
  unsigned key_bytes = 0;
  if (HMAC(EVP_sha256(), job_secret.data(), static_cast<int>(job_secret.size()),
           reinterpret_cast<const unsigned char*>(info.data()), info.size(),
           reinterpret_cast<unsigned char*>(key.data()), &key_bytes) == nullptr ||
      key_bytes != key.size())
    throw_tls_system_error("cannot derive the key of --encrypt by HMAC-SHA256");
  return key;
}

std::string tls_identity(std::string_view job_id) {
  return std::string(kTlsIdentityPrefix) + hex(identity_hash(job_id));
}

void TlsContext::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsContext::TlsContext(std::string_view job_secret, std::string_view job_id) : identity_(tls_identity(job_id)) {
  if (job_secret.empty())
    throw Error(ErrorCode::InvalidArgument,
                "encryption needs a job secret, and there is none: set TUTTI_JOB_SECRET to the same random text on all "
                "ranks, or start them by `tutti run`, which makes one (World::detect takes either)");
  key_ = tls_key(job_secret, job_id);
  context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = context_.get();
  if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(context, kCipher) != 1 ||
      SSL_CTX_set1_groups_list(context, kGroup) != 1 || SSL_CTX_set_num_tickets(context, 0) != 1)
    throw_tls_system_error("cannot set up TLS 1.3 for --encrypt");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_client_callback(context, offer_key);
  SSL_CTX_set_psk_server_callback(context, find_key);
}

namespace {

class TlsCategory final : public asio::error_category {
 public:
  const char* name() const noexcept override { return "tls"; }
  std::string message(int reason) const override {
    switch (reason) {
      case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_BAD_RECORD_TYPE:
      case SSL_R_PACKET_LENGTH_TOO_LONG:
      case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
        return "what came is not what it encrypted: bytes were altered on the way (TLS: " + words(reason) + ")";
      case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
        return "it got something else than this rank encrypted: bytes were altered on the way (TLS: " + words(reason) +
               ")";
      default:
        return "TLS: " + words(reason);
    }
  }

 private:
  static std::string words(int reason) {
    const char* text = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
    return text ? text : "reason " + std::to_string(reason);
  }
};

}  // namespace

const asio::error_category& tls_category() {
  static const auto& category = *new TlsCategory;
  return category;
}

}  // namespace tutti::comm
