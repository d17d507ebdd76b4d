// TlsSession: TLS 1.3 over one non-blocking socket. Never blocks, never raises SIGPIPE.
//
// The connecting side gives the group whose key it uses; the accepting side learns it from the client. handshake()
// first, then read_some() and write_some(), which look like a socket's to their caller:
// - Bytes are reported as written only once all records that hold them have been taken by the kernel. Until then the
//   caller offers the same bytes again, as after any partial write.
// - What has been received and not been read yet is invisible to poll(2): has_hidden() says that there may be some.
// - The stream's end says nothing: no close_notify is sent, and one that comes ends the stream as a FIN would. What is
//   complete is known from the frames inside, and a group ends by a collective, whose frames cannot be forged.
// - Sending keys are renewed long before the limit of AES-GCM (RFC 8446, section 5.5).
//
// Thread-safety: one thread at a time. The socket belongs to the caller; it stays open, and may be shut down from any
// thread.
#pragma once

#include <tutti/comm/transport/tcp/tls_context.h>

#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct ssl_st;
struct bio_st;

namespace tutti::comm {

/// Of errors that are TLS's own: bytes that were altered on the way, a peer that says so of ours, ...
const asio::error_category& tls_category();

class TlsSession {
 public:
  /// Records after which the sender's key is renewed: 2^22 full ones are 64 GiB, a sixth of what AES-GCM allows.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

  /// The connecting side. `context` must outlive the session.
  TlsSession(const TlsContext& context, int socket, std::uint64_t group);
  /// The accepting side.
  TlsSession(const TlsContext& context, int socket);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  /// Does what can be done without blocking. True once both sides have the key. Throws Unauthorized (another secret or
  /// job, no key at all, no encryption over there), PeerLost (the connection ended), Protocol (no TLS).
  bool handshake();

  /// The group that the client has named; meaningful after handshake().
  std::uint64_t group() const { return group_; }
  /// 32 bytes that only the two ends of this very connection know (RFC 5705).
  std::string binding() const;

  std::size_t read_some(std::span<const asio::mutable_buffer> parts, asio::error_code& error);
  std::size_t write_some(std::span<const asio::const_buffer> parts, asio::error_code& error);

  bool has_unsent() const { return sent_ < out_.size(); }
  bool has_hidden() const;

  /// For tests.
  void set_records_per_key(std::uint64_t records) { records_per_key_ = records; }

  // For OpenSSL's callbacks.
  const std::string& identity() const { return identity_; }
  TlsKey key() const { return context_.key(group_); }
  bool accept_identity(std::string_view identity);

 private:
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };
  friend struct TlsSocketBio;

  void create();
  bool drain(asio::error_code& error);  // true when all records have left
  std::size_t encrypt(std::span<const asio::const_buffer> parts, asio::error_code& error);
  bool write_record(const void* bytes, std::size_t count, asio::error_code& error);
  std::size_t read_record(void* into, std::size_t count, asio::error_code& error);
  asio::error_code why(int result);
  [[noreturn]] void refuse(const asio::error_code& error) const;

  const TlsContext& context_;
  const int socket_;
  const bool connects_;
  std::uint64_t group_ = 0;
  std::string identity_;
  std::string refusal_;  // accepting side: why there is no key for the client
  std::unique_ptr<ssl_st, FreeSsl> ssl_;

  std::vector<std::byte> out_;  // records; the first sent_ bytes have left
  std::size_t sent_ = 0;
  std::size_t withheld_ = 0;  // bytes of the caller that lie in out_ and have not been reported
  std::vector<std::byte> joined_;
  bool heard_all_ = true;  // the last read went on until the socket had no more
  int error_number_ = 0;   // the socket's latest error
  bool end_ = false;       // of what the socket gives
  asio::error_code failed_{};
  std::uint64_t records_ = 0;
  std::uint64_t records_per_key_ = kRecordsPerKey;
};

}  // namespace tutti::comm
