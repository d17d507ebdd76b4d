// StoreConnection: one client of a TcpStoreServer: its handshake first, then requests.
//
// Nothing is read but the handshake until the client has proved the secret. Memory follows the bytes that have come,
// and a client that does not take its replies is not read from until it has.
//
// Thread-safety: all on the thread of the server's loop. Ownership: kept alive by the server's list and by its own
// pending operations; the host must outlive it.
#pragma once

#include <tutti/comm/store/send_buffer.h>
#include <tutti/comm/store/store_service.h>
#include <tutti/comm/store/stranger_log.h>
#include <tutti/comm/wire/handshake.h>

#include <asio/error_code.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

class StoreConnection;

/// What a connection needs of its server.
class StoreConnectionHost {
 public:
  virtual ServerHandshake new_handshake() const = 0;
  virtual std::chrono::milliseconds handshake_timeout() const = 0;
  virtual StoreService& service() = 0;
  virtual void joined(StoreConnection& connection) = 0;  // it has proved the secret
  virtual void handled_requests() = 0;
  virtual void left(StoreConnection& connection) = 0;
  virtual StrangerLog& strangers() = 0;

 protected:
  ~StoreConnectionHost() = default;
};

class StoreConnection : public std::enable_shared_from_this<StoreConnection> {
 public:
  using Clock = StoreService::Clock;

  StoreConnection(asio::ip::tcp::socket socket, std::uint64_t id, std::string address, StoreConnectionHost& host);

  std::uint64_t id() const { return id_; }
  const std::string& address() const { return address_; }
  const PeerIdentity& peer() const { return handshake_.peer(); }
  Clock::time_point since() const { return since_; }

  void start();

  /// Queues a reply; those to requests that came together leave together.
  void send(std::string message);

  /// Leaves the host, at once.
  void close();

 private:
  enum class State { Hello, Proof, Refused, Requests };

  std::span<const std::byte> unread() const { return std::span(in_).subspan(begin_, end_ - begin_); }
  bool authenticated() const { return state_ == State::Requests; }

  void read();
  void on_read(const asio::error_code& error, std::size_t count);
  void proceed();
  void on_end(const asio::error_code& error);
  std::string name() const;
  void show_out(const std::string& why);
  void take_hello();
  void take_proof();
  void take_requests();
  bool take_request();
  void make_room();
  void flush();
  void end_soon(const asio::error_code& error);
  void flush_when_there_is_room();

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  const Clock::time_point since_ = Clock::now();
  const std::uint64_t id_;
  const std::string address_;
  StoreConnectionHost& host_;
  ServerHandshake handshake_;
  State state_ = State::Hello;
  bool closed_ = false;
  bool reading_ = false;
  bool taking_requests_ = false;
  bool awaiting_room_ = false;

  std::vector<std::byte> in_;  // bytes [begin_, end_) have come and are not yet consumed
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint32_t skip_ = 0;  // of an oversized body, still to come
  SendBuffer out_;          // replies
};

}  // namespace tutti::comm
