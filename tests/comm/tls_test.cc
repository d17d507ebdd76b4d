// The key of --encrypt, and TLS over one socket: what is agreed on, what is refused, and how it behaves when the socket
// takes and gives little at a time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/tests/support/watchdog.h>

#include <algorithm>
#include <array>
#include <asio/error.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
using tutti::test::Watchdog;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

std::string digits(const TlsKey& key) {
  std::string text;
  char pair[3];
  for (const std::byte byte : key) {
    std::snprintf(pair, sizeof pair, "%02x", std::to_integer<unsigned>(byte));
    text += pair;
  }
  return text;
}

// Computed by Python's hmac module from wire_format.md.
TEST(TlsKey, IsTheDocumentedOne) {
  EXPECT_EQ(digits(tls_key(kSecret, "default")), "427479304075c313530e03bc328b37d0e9b96ad449e5aed34fd98a13ae355d97");
  EXPECT_EQ(tls_identity("default"), "tutti-1/0x7d6819cec1eea837");
}

TEST(TlsKey, DependsOnSecretAndJob) {
  const auto key = tls_key(kSecret, "default");
  EXPECT_NE(key, tls_key(kSecret, "default2"));
  EXPECT_NE(key, tls_key("another", "default"));
}

/// Two sessions over a socket pair that holds little.
class TlsPair : public testing::Test {
 protected:
  TlsPair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      throw_errno("socketpair", errno);
    for (int i = 0; i < 2; ++i) {
      const int bytes = 4608;
      ::setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      sockets_[i] = Socket(ends[i]);
    }
  }

  void start(const TlsContext& client, const TlsContext& server) {
    client_ = std::make_unique<TlsSession>(client, sockets_[0].get(), TlsSession::Side::Connecting);
    server_ = std::make_unique<TlsSession>(server, sockets_[1].get(), TlsSession::Side::Accepting);
  }
  void shake_hands() {
    bool client_done = false, server_done = false;
    const Deadline deadline = soon();
    while (!(client_done && server_done) && !deadline.expired()) {
      client_done = client_done || client_->handshake();
      server_done = server_done || server_->handshake();
    }
    ASSERT_TRUE(client_done && server_done);
  }

  /// Sends `text` in portions of a header and a payload, as a link does, and reads it on the other side.
  static std::string through(TlsSession& from, TlsSession& to, const std::string& text, std::size_t header = 56) {
    std::string came;
    std::size_t sent = 0;
    const Deadline deadline = soon();
    while ((came.size() < text.size() || sent < text.size()) && !deadline.expired()) {
      asio::error_code error;
      if (sent < text.size()) {
        const std::size_t head = std::min(sent < header ? header - sent : 0, text.size() - sent);
        const std::array<asio::const_buffer, 2> parts{
            asio::buffer(text.data() + sent, head), asio::buffer(text.data() + sent + head, text.size() - sent - head)};
        sent += from.write_some(parts, error);
        EXPECT_TRUE(!error || error == asio::error::would_block) << error.message();
      }
      std::array<char, 5000> bytes;
      const std::array<asio::mutable_buffer, 2> into{asio::buffer(bytes.data(), 999),
                                                     asio::buffer(bytes.data() + 999, bytes.size() - 999)};
      came.append(bytes.data(), to.read_some(into, error));
      EXPECT_TRUE(!error || error == asio::error::would_block) << error.message();
    }
    EXPECT_EQ(sent, text.size());
    return came;
  }

  static std::string pattern(std::size_t count) {
    std::string text(count, '\0');
    for (std::size_t i = 0; i < count; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
    return text;
  }

  Watchdog watchdog_{std::chrono::seconds(60)};
  std::array<Socket, 2> sockets_;
  const TlsContext context_{kSecret, "a job"};
  std::unique_ptr<TlsSession> client_;
  std::unique_ptr<TlsSession> server_;
};

TEST_F(TlsPair, BytesComeThroughASocketThatTakesLittleAtATime) {
  start(context_, context_);
  shake_hands();
  for (const std::size_t count : {1, 56, 57, 16383, 16384, 16385, 16440, 131072, 131073, 1'000'000}) {
    const std::string text = pattern(count);
    ASSERT_EQ(through(*client_, *server_, text), text) << count << " bytes up";
    ASSERT_EQ(through(*server_, *client_, text, 0), text) << count << " bytes down";
  }
}

TEST_F(TlsPair, KeysAreRenewedOnTheWayInBothDirections) {
  start(context_, context_);
  shake_hands();
  client_->set_records_per_key(3);
  server_->set_records_per_key(5);
  const std::string text = pattern(600'000);
  EXPECT_EQ(through(*client_, *server_, text), text);
  EXPECT_EQ(through(*server_, *client_, text), text);
  EXPECT_EQ(through(*client_, *server_, text), text);
}

TEST_F(TlsPair, TheKeyIsRenewedAfterSoManyRecords) {
  start(context_, context_);
  shake_hands();
  client_->set_records_per_key(2);
  const std::string text = pattern(10);
  const std::array<asio::const_buffer, 1> parts{asio::buffer(text)};
  asio::error_code error;
  for (int record = 0; record < 4; ++record) ASSERT_EQ(client_->write_some(parts, error), text.size());
  std::array<char, 1000> wire;
  constexpr ssize_t kAround = 5 + 1 + 16;  // header, type and tag of each record; a KeyUpdate is 5 bytes
  EXPECT_EQ(::recv(sockets_[1].get(), wire.data(), wire.size(), MSG_PEEK), 4 * (kAround + 10) + 2 * (kAround + 5));
  std::array<char, 100> came;
  std::size_t have = 0;
  for (int record = 0; record < 4; ++record) {
    const std::array<asio::mutable_buffer, 1> into{asio::buffer(came.data() + have, came.size() - have)};
    have += server_->read_some(into, error);
  }
  EXPECT_EQ(std::string(came.data(), have), text + text + text + text);
}

TEST_F(TlsPair, BothEndsKnowTheSameBindingAndNoOtherConnectionHasIt) {
  start(context_, context_);
  shake_hands();
  const std::string first = client_->binding();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first, server_->binding());
  start(context_, context_);
  shake_hands();
  EXPECT_EQ(client_->binding(), server_->binding());
  EXPECT_NE(client_->binding(), first);
}

TEST_F(TlsPair, WhatIsDecryptedAndNotReadIsHiddenUntilItIsRead) {
  start(context_, context_);
  shake_hands();
  const std::string text = pattern(1000);
  asio::error_code error;
  const std::array<asio::const_buffer, 1> parts{asio::buffer(text)};
  ASSERT_EQ(client_->write_some(parts, error), text.size());
  std::array<char, 2000> bytes;
  const auto read = [&](std::size_t count) {
    const std::array<asio::mutable_buffer, 1> into{asio::buffer(bytes.data(), count)};
    return server_->read_some(into, error);
  };
  ASSERT_EQ(read(400), 400u);
  EXPECT_TRUE(server_->has_hidden());
  char byte = 0;
  EXPECT_EQ(::recv(sockets_[1].get(), &byte, 1, MSG_PEEK), -1);  // poll(2) would see nothing
  ASSERT_EQ(read(2000), 600u);
  EXPECT_EQ(read(2000), 0u);
  EXPECT_EQ(error, asio::error::would_block);
  EXPECT_FALSE(server_->has_hidden());
}

/// What the two sides of a handshake end with.
struct Ends {
  Error client{ErrorCode::Timeout, "no error came"};
  Error server{ErrorCode::Timeout, "no error came"};
};

Ends failed_handshake(TlsSession& client, TlsSession& server) {
  Ends ends;
  bool client_over = false, server_over = false;
  const Deadline deadline = soon();
  const auto advance = [](TlsSession& session, bool& over, Error& end) {
    try {
      over = over || session.handshake();
    } catch (const Error& error) {
      over = true;
      end = error;
    }
  };
  while (!(client_over && server_over) && !deadline.expired()) {
    advance(client, client_over, ends.client);
    advance(server, server_over, ends.server);
  }
  return ends;
}

TEST_F(TlsPair, AnotherJobIsRefusedOnBothSides) {
  const TlsContext other(kSecret, "another job");
  start(other, context_);
  const Ends ends = failed_handshake(*client_, *server_);
  EXPECT_EQ(ends.client.code(), ErrorCode::Unauthorized);
  expect_parts(ends.client.what(), {"TUTTI_JOB_ID"});
  EXPECT_EQ(ends.server.code(), ErrorCode::Unauthorized);
  expect_parts(ends.server.what(), {"another job's process"});
}

TEST_F(TlsPair, AnIdentityThatIsNotTuttisIsQuoted) {
  SSL_CTX_set_psk_client_callback(
      context_.native(), [](SSL*, const char*, char* identity, unsigned, unsigned char* key, unsigned) -> unsigned {
        std::strcpy(identity, "Client_identity");
        std::fill_n(key, 32, static_cast<unsigned char>(1));
        return 32;
      });
  start(context_, context_);
  const Ends ends = failed_handshake(*client_, *server_);
  EXPECT_EQ(ends.server.code(), ErrorCode::Unauthorized);
  expect_parts(ends.server.what(), {"its TLS identity is not Tutti's: \"Client_identity\""});
}

TEST_F(TlsPair, ChangedBytesAreAnErrorOfTheirOwnAndThePeerHearsOfIt) {
  start(context_, context_);
  shake_hands();
  // One whole record, changed on its way by this test's own hands.
  std::array<unsigned char, 40> record{0x17, 0x03, 0x03, 0x00, 0x23};
  ASSERT_EQ(::send(sockets_[0].get(), record.data(), record.size(), MSG_NOSIGNAL), 40);
  std::array<char, 100> bytes;
  const std::array<asio::mutable_buffer, 1> into{asio::buffer(bytes)};
  asio::error_code error;
  EXPECT_EQ(server_->read_some(into, error), 0u);
  EXPECT_EQ(&error.category(), &tls_category());
  expect_parts(error.message(), {"altered on the way"});
  EXPECT_EQ(server_->read_some(into, error), 0u);
  EXPECT_EQ(&error.category(), &tls_category()) << "it stays so";
  EXPECT_EQ(client_->read_some(into, error), 0u);
  EXPECT_EQ(&error.category(), &tls_category());
  expect_parts(error.message(), {"altered on the way"});
}

TEST_F(TlsPair, AStreamThatIsCutIsOver) {
  start(context_, context_);
  shake_hands();
  sockets_[0].close();
  std::array<char, 100> bytes;
  const std::array<asio::mutable_buffer, 1> into{asio::buffer(bytes)};
  asio::error_code error;
  EXPECT_EQ(server_->read_some(into, error), 0u);
  EXPECT_EQ(error, asio::error::eof);
}

/// A TLS server with a certificate of its own making, which is what someone in the middle without the key can be.
class CertificateServer {
 public:
  explicit CertificateServer(int socket) {
    key_.reset(EVP_EC_gen("P-256"));
    certificate_.reset(X509_new());
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
    context_.reset(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate(context_.get(), certificate_.get());
    SSL_CTX_use_PrivateKey(context_.get(), key_.get());
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket);
    SSL_set_accept_state(ssl_.get());
  }
  void advance() { SSL_do_handshake(ssl_.get()); }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_{nullptr, EVP_PKEY_free};
  std::unique_ptr<X509, decltype(&X509_free)> certificate_{nullptr, X509_free};
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

TEST_F(TlsPair, AServerWithACertificateInsteadOfTheKeyIsRefused) {
  client_ = std::make_unique<TlsSession>(context_, sockets_[0].get(), TlsSession::Side::Connecting);
  CertificateServer server(sockets_[1].get());
  const Deadline deadline = soon();
  expect_error(ErrorCode::Unauthorized, {"did not show that it knows the job secret"}, [&] {
    while (!deadline.expired()) {
      if (client_->handshake()) return;
      server.advance();
    }
  });
}

}  // namespace
}  // namespace tutti::comm
