// How a TlsSession begins: its keys, its handshake, and the text of one that fails.
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

TlsSession::TlsSession(const TlsContext& context, int socket, std::uint64_t group)
    : context_(context),
      socket_(socket),
      connects_(true),
      group_(group),
      identity_(tls_identity(context.job(), group)) {
  create();
  SSL_set_connect_state(ssl_.get());
  // A server might answer with a certificate instead of the key. None is trusted, so that the handshake ends there.
  SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
}

TlsSession::TlsSession(const TlsContext& context, int socket) : context_(context), socket_(socket), connects_(false) {
  create();
  SSL_set_accept_state(ssl_.get());
}

TlsSession::~TlsSession() = default;

void TlsSession::create() {
  ssl_.reset(SSL_new(context_.native()));
  BIO* bio = ssl_ ? BIO_new(TlsSocketBio::method()) : nullptr;
  if (!bio) throw_tls_system_error("cannot make a TLS connection");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // owns it now
  SSL_set_app_data(ssl_.get(), this);
}

bool TlsSession::accept_identity(std::string_view identity) {
  const auto parsed = parse_tls_identity(identity);
  if (!parsed) {
    refusal_ = "its TLS identity is not Tutti's: \"" + printable(identity, 64) + "\"";
  } else if (parsed->job != context_.job()) {
    refusal_ = "job " + hex(context_.job()) + " here, " + hex(parsed->job) +
               " there (hashes of the job ids): another job's process came to this port; compare TUTTI_JOB_ID and the "
               "port";
  }
  if (!refusal_.empty()) return false;
  group_ = parsed->group;
  return true;
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
  const auto alert = [&](int number) { return error.value() == kAlertBase + number; };
  if (error.value() == SSL_R_BINDER_DOES_NOT_VERIFY)
    throw Error(ErrorCode::Unauthorized, std::string("the client has another job secret; ") + kSecret);
  if (connects_ && (alert(SSL_AD_ILLEGAL_PARAMETER) || alert(SSL_AD_DECRYPT_ERROR)))
    throw Error(ErrorCode::Unauthorized, std::string("the server has another job secret; ") + kSecret);
  if (connects_ && alert(SSL_AD_INSUFFICIENT_SECURITY))
    throw Error(ErrorCode::Unauthorized,
                "it has no encryption, but this rank has: start all ranks with --encrypt (TUTTI_ENCRYPT=1), or none");
  if (connects_ && alert(SSL_AD_HANDSHAKE_FAILURE))
    throw Error(ErrorCode::Unauthorized, "the server has no key for this job; compare TUTTI_JOB_ID and the port");
  if (error.value() == SSL_R_CERTIFICATE_VERIFY_FAILED)
    throw Error(ErrorCode::Unauthorized,
                "the server answered with a certificate, and did not show that it knows the "
                "job secret: it is no rank of this job");
  throw Error(ErrorCode::Protocol, error.message() + " (during the handshake)");
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

}  // namespace tutti::comm
