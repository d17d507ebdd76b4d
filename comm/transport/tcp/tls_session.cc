#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/comm/wire/printable.h>

#include <asio/error.hpp>
#include <cerrno>

namespace tutti::comm {
namespace {

constexpr int kAlertBase = 1000;  // OpenSSL's reason for an alert is this and its number
constexpr char kBindingLabel[] = "EXPORTER-tutti-handshake";
constexpr std::size_t kBindingBytes = 32;
constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;

constexpr std::size_t kFedBytes = 64 * 1024;  // a few records for each system call

}  // namespace

void TlsSession::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsSession::TlsSession(const TlsContext& context, int socket, Side side)
    : context_(context), socket_(socket), side_(side), ssl_(SSL_new(context.native())) {
  if (ssl_) SSL_set_bio(ssl_.get(), in_ = BIO_new(BIO_s_mem()), out_ = BIO_new(BIO_s_mem()));  // which owns them
  if (!ssl_ || !in_ || !out_) throw_tls_system_error("cannot make a TLS connection");
  SSL_set_app_data(ssl_.get(), this);
  if (side == Side::Accepting) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
    // A server might answer with a certificate instead of the key. None is trusted, so that the handshake ends there.
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
  }
}

bool TlsSession::accept_identity(std::string_view identity) {
  if (identity == context_.identity()) return true;
  const auto job_of = [](std::string_view text) { return text.substr(kTlsIdentityPrefix.size()); };
  refusal_ = identity.starts_with(kTlsIdentityPrefix)
                 ? "job " + std::string(job_of(context_.identity())) + " here, " + printable(job_of(identity), 64) +
                       " there (hashes of the job ids): another job's process came to this port; compare TUTTI_JOB_ID "
                       "and the port"
                 : "its TLS identity is not Tutti's: \"" + printable(identity, 64) + "\"";
  return false;
}

bool TlsSession::handshake() {
  asio::error_code error;
  if (!drain(error)) {
    if (error == asio::error::would_block) return false;
    refuse(error);
  }
  const int result = call([&] { return SSL_do_handshake(ssl_.get()); });
  const asio::error_code reason = result == 1 ? asio::error_code() : why(result);
  if (!drain(error) && error != asio::error::would_block && result == 1) refuse(error);
  if (result != 1) {
    if (reason == asio::error::would_block) return false;
    refuse(reason);
  }
  if (SSL_session_reused(ssl_.get()) != 1)
    throw Error(ErrorCode::Unauthorized, "the peer did not show that it knows the job secret");
  heard_all_ = false;  // the peer may have gone on at once
  return true;
}

void TlsSession::refuse(const asio::error_code& error) const {
  const char* kSecret = "compare TUTTI_JOB_SECRET (or ~/.config/tutti/job_secret) on both sides";
  if (!refusal_.empty()) throw Error(ErrorCode::Unauthorized, refusal_);
  if (error.category() != tls_category())
    throw Error(ErrorCode::PeerLost, "the TLS handshake broke off: ",
                error == asio::error::eof ? "it closed the connection" : error.message());
  const bool connects = side_ == Side::Connecting;
  const auto alert = [&](int number) { return error.value() == kAlertBase + number; };
  if (error.value() == SSL_R_BINDER_DOES_NOT_VERIFY)
    throw Error(ErrorCode::Unauthorized, std::string("the client has another job secret; ") + kSecret);
  if (connects && (alert(SSL_AD_ILLEGAL_PARAMETER) || alert(SSL_AD_DECRYPT_ERROR)))
    throw Error(ErrorCode::Unauthorized, std::string("the server has another job secret; ") + kSecret);
  if (connects && alert(SSL_AD_HANDSHAKE_FAILURE))
    throw Error(ErrorCode::Unauthorized, "the server has no key for this job; compare TUTTI_JOB_ID and the port");
  if (error.value() == SSL_R_CERTIFICATE_VERIFY_FAILED)
    throw Error(ErrorCode::Unauthorized,
                "the server answered with a certificate, and did not show that it knows the "
                "job secret: it is no rank of this job");
  throw Error(ErrorCode::Protocol, error.message(),
              " (during the handshake); or it is no rank of this job, or one "
              "without --encrypt (TUTTI_ENCRYPT=1), with which all must start");
}

std::string TlsSession::binding() const {
  std::string bytes(kBindingBytes, '\0');
  if (SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                 kBindingLabel, sizeof kBindingLabel - 1, nullptr, 0, 0) != 1)
    throw_tls_system_error("cannot derive what binds the handshake to its TLS connection");
  return bytes;
}

/// Calls one of OpenSSL's functions, and again as long as it wants bytes that have come.
template <typename Function>
int TlsSession::call(Function function) {
  int result;
  do {
    ERR_clear_error();
    result = function();
  } while (result != 1 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ && feed());
  return result;
}

/// Gives OpenSSL what has come; false if that is nothing.
bool TlsSession::feed() {
  std::array<std::byte, kFedBytes> bytes;
  ssize_t received;
  do {
    received = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received > 0) return BIO_write(in_, bytes.data(), static_cast<int>(received)) == received;
  if (received == 0) end_ = true;
  if (received < 0 && errno != EAGAIN && errno != EWOULDBLOCK) error_number_ = errno;
  return false;
}

asio::error_code TlsSession::why(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind == SSL_ERROR_WANT_READ && !end_ && error_number_ == 0) return asio::error::would_block;
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (error_number_ != 0) {
    failed_ = asio::error_code(error_number_, asio::system_category());
  } else if (end_ || kind == SSL_ERROR_ZERO_RETURN) {
    failed_ = asio::error::eof;
  } else {
    failed_ = asio::error_code(ERR_GET_REASON(code), tls_category());
  }
  return failed_;
}

bool TlsSession::has_pending() const { return SSL_has_pending(ssl_.get()) == 1 || BIO_ctrl_pending(in_) > 0; }

std::size_t TlsSession::read_record(void* into, std::size_t count, asio::error_code& error) {
  std::size_t got = 0;
  const int result = call([&] { return SSL_read_ex(ssl_.get(), into, count, &got); });
  heard_all_ = result != 1;
  if (result != 1) error = why(result);
  return got;
}

std::size_t TlsSession::read_some(std::span<const asio::mutable_buffer> parts, asio::error_code& error) {
  std::size_t total = 0;
  error = failed_;
  for (const asio::mutable_buffer& part : parts) {
    std::size_t got = 0;
    while (!error && got < part.size() && (total + got == 0 || has_pending()))
      got += read_record(static_cast<std::byte*>(part.data()) + got, part.size() - got, error);
    total += got;
  }
  if (error && error != asio::error::would_block) {
    asio::error_code ignored;
    drain(ignored);  // OpenSSL's alert to the peer
  }
  if (total > 0) error = {};  // it is reported when there are no bytes
  return total;
}

bool TlsSession::has_unsent() const { return sent_ < BIO_ctrl_pending(out_); }

bool TlsSession::drain(asio::error_code& error) {
  error = {};
  while (has_unsent()) {
    char* bytes = nullptr;
    const auto size = static_cast<std::size_t>(BIO_get_mem_data(out_, &bytes));
    const ssize_t count = ::send(socket_, bytes + sent_, size - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      error = asio::error::would_block;
      return false;
    } else if (errno != EINTR) {
      error = asio::error_code(errno, asio::system_category());
      return false;
    }
  }
  if (std::exchange(sent_, 0) > 0) (void)BIO_reset(out_);
  return true;
}

std::size_t TlsSession::write_some(std::span<const asio::const_buffer> parts, asio::error_code& error) {
  if (!drain(error)) return 0;
  if (withheld_ > 0) return std::exchange(withheld_, 0);
  error = failed_;
  if (error && error.category() != tls_category()) error = {};  // a peer that sends no more may still listen
  const std::size_t taken = error ? 0 : write_record(parts, error);
  if (error || drain(error)) return taken;
  withheld_ = taken;
  return 0;
}

/// Short parts (a frame's header) share the record with what follows.
std::size_t TlsSession::write_record(std::span<const asio::const_buffer> parts, asio::error_code& error) {
  while (!parts.empty() && parts.front().size() == 0) parts = parts.subspan(1);
  if (parts.empty()) return 0;
  std::array<std::byte, kRecordBytes> joined;
  const void* bytes = parts.front().data();
  std::size_t count = kRecordBytes;
  if (parts.front().size() < kRecordBytes) {
    count = asio::buffer_copy(asio::buffer(joined), parts);
    bytes = joined.data();
  }
  ERR_clear_error();
  if (++records_ % records_per_key_ == 0 && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
    throw_tls_system_error("cannot renew the key of an encrypted connection");
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes, count, &written);
  if (result != 1) error = why(result);
  return written;
}

}  // namespace tutti::comm
