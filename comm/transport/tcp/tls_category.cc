// Texts of the errors that are TLS's own.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <tutti/comm/transport/tcp/tls_session.h>

#include <string>

namespace tutti::comm {
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
