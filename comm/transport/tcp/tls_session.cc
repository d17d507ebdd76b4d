#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/comm/wire/printable.h>

#include <array>
#include <asio/error.hpp>
#include <cerrno>
#include <utility>

namespace tutti::comm {
namespace {

constexpr int kAlertBase = 1000;  // OpenSSL's reason for an alert is this and its number
constexpr char kBindingLabel[] = "EXPORTER-tutti-handshake";
constexpr std::size_t kBindingBytes = 32;
constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;

TlsSession& session_of(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

}  // namespace

/// The BIO that OpenSSL takes for the connection: reads come from the socket, writes are collected.
struct TlsSocketBio {
  static int write(BIO* bio, const char* bytes, std::size_t count, std::size_t* written) {
    auto& out = session_of(bio).out_;
    const auto* first = reinterpret_cast<const std::byte*>(bytes);
    out.insert(out.end(), first, first + count);
    *written = count;
    return 1;
  }

  static int read(BIO* bio, char* into, std::size_t count, std::size_t* got) {
    TlsSession& session = session_of(bio);
    BIO_clear_retry_flags(bio);
    ssize_t received;
    do {
      received = ::recv(session.socket_, into, count, MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    *got = received > 0 ? static_cast<std::size_t>(received) : 0;
    if (received > 0) return 1;
    if (received == 0) {
      session.end_ = true;
      return 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      BIO_set_retry_read(bio);
    } else {
      session.error_number_ = errno;
    }
    return 0;
  }

  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return session_of(bio).end_ ? 1 : 0;
    return 0;
  }

  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* result = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti socket");
      if (!result || BIO_meth_set_write_ex(result, write) != 1 || BIO_meth_set_read_ex(result, read) != 1 ||
          BIO_meth_set_ctrl(result, control) != 1)
        throw_tls_system_error("cannot describe a socket to OpenSSL");
      return result;
    }();
    return made;
  }
};

void TlsSession::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsSession::TlsSession(const TlsContext& context, int socket, Side side)
    : context_(context), socket_(socket), side_(side), ssl_(SSL_new(context.native())) {
  BIO* bio = ssl_ ? BIO_new(TlsSocketBio::method()) : nullptr;
  if (!bio) throw_tls_system_error("cannot make a TLS connection");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // owns it now
  SSL_set_app_data(ssl_.get(), this);
  if (side == Side::Accepting) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
    // A server might answer with a certificate instead of the key. None is trusted, so that the handshake ends there.
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
  }
}

TlsSession::~TlsSession() = default;

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
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
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
    throw Error(ErrorCode::PeerLost, "the TLS handshake broke off: " +
                                         (error == asio::error::eof ? "it closed the connection" : error.message()));
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
  throw Error(ErrorCode::Protocol, error.message() +
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

asio::error_code TlsSession::why(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind == SSL_ERROR_WANT_READ) return asio::error::would_block;
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

bool TlsSession::has_hidden() const { return !heard_all_ && SSL_has_pending(ssl_.get()) == 1; }

std::size_t TlsSession::read_record(void* into, std::size_t count, asio::error_code& error) {
  ERR_clear_error();
  std::size_t got = 0;
  const int result = SSL_read_ex(ssl_.get(), into, count, &got);
  heard_all_ = result != 1;
  if (result != 1) error = why(result);
  return got;
}

std::size_t TlsSession::read_some(std::span<const asio::mutable_buffer> parts, asio::error_code& error) {
  std::size_t total = 0;
  error = failed_;
  for (const asio::mutable_buffer& part : parts) {
    std::size_t got = 0;
    while (!error && got < part.size() && (total + got == 0 || SSL_has_pending(ssl_.get()) == 1))
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

bool TlsSession::drain(asio::error_code& error) {
  error = {};
  while (has_unsent()) {
    const ssize_t count = ::send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
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
  sent_ = 0;
  out_.clear();
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
