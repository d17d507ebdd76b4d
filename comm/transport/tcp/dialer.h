// Dialer: one connection to a peer that has several addresses, as "happy eyeballs" does it (RFC 8305).
//
// The best address gets a head start; whenever one has failed, or has not answered for a while, the next is tried
// beside it. The first that answers with a challenge gets our proof, which commits both ends; if it refuses, because
// another process than the one we mean is at that address, the others go on.
// Thread-safety: none but for status(); the owner serialises.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/handshaking_socket.h>

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

class Dialer {
 public:
  struct Options {
    std::vector<std::string> endpoints;  // "10.0.0.2:4000", best first
    std::function<std::unique_ptr<HandshakingSocket>(const asio::ip::tcp::endpoint&)> open;
    std::function<void(const std::string& endpoint)> reached = nullptr;  // the endpoint that worked
    std::string from{};                                                  // for the warning about silence: "rank 1"
    std::string to{};
    std::chrono::milliseconds head_start{250};
    std::chrono::milliseconds warn_after{5000};  // of silence, once
  };

  /// Opens the first. Throws InvalidArgument for text that is no endpoint.
  explicit Dialer(Options options);

  /// True once the peer has let us in; then take() the connection. Throws when all addresses have failed, with every
  /// attempt in the text: PeerLost, Protocol, Unauthorized, System.
  bool advance();

  ByteStream take() { return chosen().take(); }

  /// The connection that is most likely to be next; -1 between two attempts.
  int native_handle();
  bool wants_to_write();

  /// "for 7.1 s: no answer from 10.0.0.2:4000; cannot connect to [fd00::2]:4000: ...". Any thread.
  std::string status() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    std::string endpoint;
    std::unique_ptr<HandshakingSocket> socket;
  };

  HandshakingSocket& chosen() { return *attempts_[*chosen_].socket; }
  void start_due();
  bool step(std::size_t index, bool& changed);
  void add_failure(const std::string& endpoint, const Error& error);
  void warn_of_silence();
  std::string text_of_status() const;

  const Options options_;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point next_start_ = started_;
  std::size_t next_ = 0;      // of options_.endpoints
  mutable std::mutex mutex_;  // advance() may change the next two while status() reads them
  std::vector<Attempt> attempts_;
  std::string failures_;
  std::optional<std::size_t> chosen_;
  std::optional<ErrorCode> worst_;
  bool warned_ = false;
};

}  // namespace tutti::comm
