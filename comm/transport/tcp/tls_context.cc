#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tls_context.h>
#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/little_endian.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace tutti::comm {
namespace {

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherNumber[] = {0x13, 0x01};
constexpr char kGroup[] = "X25519";
constexpr std::size_t kReadBufferBytes = 64 * 1024;  // a few records for each system call
constexpr std::string_view kSalt = "tutti";
constexpr std::string_view kLabel{"tutti tls psk 1\0", 16};
constexpr std::string_view kIdentityPrefix = "tutti-1/";
constexpr std::size_t kHashDigits = 16;

std::string digits(std::uint64_t value) {
  char text[kHashDigits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// The OpenSSL session of a key, on both sides; null if memory is short.
SSL_SESSION* session_with(SSL* ssl, const TlsKey& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherNumber);
  if (session && cipher &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_bytes,
              SSL_SESSION** session) {
  const auto& own = *static_cast<const TlsSession*>(SSL_get_app_data(ssl));
  *session = session_with(ssl, own.key());
  *identity = reinterpret_cast<const unsigned char*>(own.identity().data());
  *identity_bytes = own.identity().size();
  return *session ? 1 : 0;
}

/// No session for an identity of another job: the handshake then ends for want of a certificate.
int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session) {
  auto& own = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  *session = own.accept_identity({reinterpret_cast<const char*>(identity), identity_bytes})
                 ? session_with(ssl, own.key())
                 : nullptr;
  return 1;
}

}  // namespace

void throw_tls_system_error(const std::string& what) {
  char text[256] = "no reason given";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  throw Error(ErrorCode::System, what + ": " + text);
}

TlsKey tls_key(std::string_view job_secret, std::string_view job_id, std::uint64_t group) {
  std::string info(kLabel);
  std::array<std::byte, 8> group_bytes;
  put_little_endian(group_bytes.data(), group);
  info.append(reinterpret_cast<const char*>(group_bytes.data()), group_bytes.size());
  info += job_id;
  const auto octets = [](const char* name, std::string_view text) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
  };
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                   octets(OSSL_KDF_PARAM_KEY, job_secret), octets(OSSL_KDF_PARAM_SALT, kSalt),
                                   octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  TlsKey key{};
  if (!context ||
      EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()), key.size(), parameters) != 1)
    throw_tls_system_error("cannot derive the key of --encrypt by HKDF-SHA256");
  return key;
}

std::string tls_identity(std::uint64_t job, std::uint64_t group) {
  return std::string(kIdentityPrefix) + digits(job) + "/" + digits(group);
}

std::optional<TlsIdentity> parse_tls_identity(std::string_view text) {
  TlsIdentity identity;
  if (!text.starts_with(kIdentityPrefix) || text.size() != kIdentityPrefix.size() + 2 * kHashDigits + 1)
    return std::nullopt;
  const char* at = text.data() + kIdentityPrefix.size();
  std::from_chars(at, at + kHashDigits, identity.job, 16);
  std::from_chars(at + kHashDigits + 1, at + 2 * kHashDigits + 1, identity.group, 16);
  if (tls_identity(identity.job, identity.group) != text) return std::nullopt;
  return identity;
}

void TlsContext::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsContext::TlsContext(std::string job_secret, std::string job_id)
    : job_secret_(std::move(job_secret)), job_id_(std::move(job_id)), job_(identity_hash(job_id_)) {
  if (job_secret_.empty())
    throw Error(ErrorCode::InvalidArgument,
                "encryption needs a job secret, and there is none: set TUTTI_JOB_SECRET to the same random text on all "
                "ranks, or start them by `tutti run`, which makes one (World::detect takes either)");
  context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = context_.get();
  if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(context, kCipher) != 1 ||
      SSL_CTX_set1_groups_list(context, kGroup) != 1 || SSL_CTX_set_num_tickets(context, 0) != 1)
    throw_tls_system_error("cannot set up TLS 1.3 for --encrypt");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBufferBytes);
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
}

TlsContext::~TlsContext() = default;

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
