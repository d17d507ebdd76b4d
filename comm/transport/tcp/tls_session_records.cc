// How a TlsSession reads and writes: bytes to records, and back.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <tutti/comm/transport/tcp/tls_session.h>

#include <algorithm>
#include <asio/error.hpp>
#include <cerrno>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kBatchBytes = 4 * kRecordBytes;  // encrypted before they are sent together

}  // namespace

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
  const std::size_t taken = error ? 0 : encrypt(parts, error);
  if (error || drain(error)) return taken;
  withheld_ = taken;
  return 0;
}

std::size_t TlsSession::encrypt(std::span<const asio::const_buffer> parts, asio::error_code& error) {
  std::size_t total = 0;
  joined_.clear();
  // Short parts in front (a frame's header) share a record with what follows.
  const auto add = [&](const std::byte* bytes, std::size_t count) {
    joined_.insert(joined_.end(), bytes, bytes + count);
  };
  for (std::size_t i = 0; i < parts.size() && total < kBatchBytes && !error; ++i) {
    const auto* bytes = static_cast<const std::byte*>(parts[i].data());
    std::size_t left = parts[i].size();
    if (i + 1 < parts.size() && joined_.size() + left < kRecordBytes) {
      add(bytes, left);
      continue;
    }
    if (!joined_.empty()) {
      const std::size_t fill = std::min(left, kRecordBytes - joined_.size());
      add(bytes, fill);
      if (!write_record(joined_.data(), joined_.size(), error)) return total;
      total += joined_.size();
      bytes += fill;
      left -= fill;
      joined_.clear();
    }
    while (left > 0 && total < kBatchBytes) {
      const std::size_t count = std::min(left, kRecordBytes);
      if (!write_record(bytes, count, error)) return total;
      total += count;
      bytes += count;
      left -= count;
    }
    if (left > 0) break;
  }
  return total;
}

bool TlsSession::write_record(const void* bytes, std::size_t count, asio::error_code& error) {
  ERR_clear_error();
  if (++records_ % records_per_key_ == 0 && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
    throw_tls_system_error("cannot renew the key of an encrypted connection");
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes, count, &written);
  if (result != 1) error = why(result);
  return result == 1;
}

}  // namespace tutti::comm
