// TlsContext, TlsSession: TLS 1.3 with a pre-shared key and nothing else, over non-blocking sockets.
//
// Key exchange psk_dhe_ke over X25519 (a secret that leaks later opens no recording), TLS_AES_128_GCM_SHA256, no
// certificates, no tickets, no resumption, no early data. An external PSK per RFC 8446, section 4.2.11; the key is
// derived from the job secret and the job id. Which group a connection is for is proved inside (wire/handshake.h).
// Bytes: wire_format.md.
//
// A session never blocks, and never raises SIGPIPE. handshake() first, then read_some() and write_some(), which look
// like a socket's to their caller:
// - One call writes one record, of up to 16 KiB of the bytes. They are reported as written once the kernel has taken
//   the record. Until then the caller offers the same bytes again, as after any partial write.
// - What has been received and not been read yet is invisible to poll(2): has_hidden() says that there may be some.
// - The stream's end says nothing: no close_notify is sent, and one that comes ends the stream as a FIN would. What is
//   complete is known from the frames inside, and a group ends by a collective, whose frames cannot be forged.
// - Sending keys are renewed long before the limit of AES-GCM (RFC 8446, section 5.5).
//
// Thread-safety of a session: one thread at a time. The socket belongs to the caller; it stays open, and may be shut
// down from any thread.
#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

struct bio_st;
struct ssl_ctx_st;
struct ssl_st;

namespace tutti::comm {

using TlsKey = std::array<std::byte, 32>;

/// HKDF-Expand of the secret by SHA-256 (RFC 5869, section 2.3), for one job.
TlsKey tls_key(std::string_view job_secret, std::string_view job_id);

/// The client's identity in the clear, which names its key: this and the hash of the job id in hex.
inline constexpr std::string_view kTlsIdentityPrefix = "tutti-1/";
std::string tls_identity(std::string_view job_id);

/// What all encrypted connections of a process have in common. May be shared by threads once constructed; it must
/// outlive its TlsSessions.
class TlsContext {
 public:
  /// Throws InvalidArgument, saying how to get one, if the secret is empty; System if OpenSSL fails.
  TlsContext(std::string_view job_secret, std::string_view job_id);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  const TlsKey& key() const { return key_; }
  const std::string& identity() const { return identity_; }
  ssl_ctx_st* native() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };

  TlsKey key_{};
  std::string identity_;
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

/// Throws System with OpenSSL's words for its latest error, and forgets it.
[[noreturn]] void throw_tls_system_error(const std::string& what);

/// Of errors that are TLS's own: bytes that were altered on the way, a peer that says so of ours, ...
const asio::error_category& tls_category();

class TlsSession {
 public:
  /// Records after which the sender's key is renewed: 2^22 full ones are 64 GiB, a sixth of what AES-GCM allows.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

  enum class Side { Connecting, Accepting };

  /// `context` must outlive the session.
  TlsSession(const TlsContext& context, int socket, Side side);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Does what can be done without blocking. True once both sides have the key. Throws Unauthorized (another secret or
  /// job, no key at all, no encryption over there), PeerLost (the connection ended), Protocol (no TLS).
  bool handshake();

  /// 32 bytes that only the two ends of this very connection know (RFC 5705).
  std::string binding() const;

  std::size_t read_some(std::span<const asio::mutable_buffer> parts, asio::error_code& error);
  std::size_t write_some(std::span<const asio::const_buffer> parts, asio::error_code& error);

  bool has_unsent() const;
  bool has_hidden() const { return !heard_all_ && has_pending(); }

  /// For tests.
  void set_records_per_key(std::uint64_t records) { records_per_key_ = records; }

  // For OpenSSL's callbacks.
  const TlsContext& context() const { return context_; }
  bool accept_identity(std::string_view identity);

 private:
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };

  template <typename Function>
  int call(Function function);
  bool feed();
  bool has_pending() const;
  bool drain(asio::error_code& error);  // true when all records have left
  std::size_t write_record(std::span<const asio::const_buffer> parts, asio::error_code& error);
  std::size_t read_record(void* into, std::size_t count, asio::error_code& error);
  asio::error_code why(int result);
  [[noreturn]] void refuse(const asio::error_code& error) const;

  const TlsContext& context_;
  const int socket_;
  const Side side_;
  std::string refusal_;  // accepting side: why there is no key for the client
  std::unique_ptr<ssl_st, FreeSsl> ssl_;

  bio_st* in_ = nullptr;   // records that have come; ssl_ owns both
  bio_st* out_ = nullptr;  // records, of which the first sent_ bytes have left
  std::size_t sent_ = 0;
  std::size_t withheld_ = 0;  // bytes of the caller that lie in out_ and have not been reported
  bool heard_all_ = true;     // the last read went on until the socket had no more
  int error_number_ = 0;      // the socket's latest error
  bool end_ = false;          // of what the socket gives
  asio::error_code failed_{};
  std::uint64_t records_ = 0;
  std::uint64_t records_per_key_ = kRecordsPerKey;
};

/// A TCP socket, or TLS over one, behind the two calls that never block. Without TLS a call is the socket's own, behind
/// one branch that is always the same.
class ByteStream {
 public:
  explicit ByteStream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  /// From now on bytes go through `session`, which must be over this socket and done with its handshake.
  void encrypt(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }

  /// Both transfer up to as many bytes as there is room for; `error` is asio's would_block, eof or the connection's, or
  /// one of tls_category().
  template <typename Parts>
  std::size_t read_some(const Parts& parts, asio::error_code& error) {
    if (!tls_) return socket_.read_some(parts, error);
    return tls_->read_some(std::span(asio::buffer_sequence_begin(parts), asio::buffer_sequence_end(parts)), error);
  }
  template <typename Parts>
  std::size_t write_some(const Parts& parts, asio::error_code& error) {
    if (!tls_) return socket_.write_some(parts, error);
    return tls_->write_some(std::span(asio::buffer_sequence_begin(parts), asio::buffer_sequence_end(parts)), error);
  }

  /// Whether there may be bytes to read that poll(2) does not know of.
  bool has_hidden() const { return tls_ && tls_->has_hidden(); }
  bool is_encrypted() const { return tls_ != nullptr; }

  asio::ip::tcp::socket& socket() { return socket_; }
  int native_handle() { return socket_.native_handle(); }

 private:
  asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;  // goes before its socket
};

}  // namespace tutti::comm
