// StoreConnection: one client of a store server, and StoreCodec: what it speaks.
//
// Memory follows the bytes that have come, not the lengths that they announce, and a client that does not take its
// replies is not read from until it has. A codec is all that Tutti's store and PyTorch's do not share.
//
// Thread-safety: all on the thread of the server's loop (store_loop.h). Ownership: a connection is kept alive by the
// loop's list and by its own pending operations, and owns its codec; the loop must outlive it.
#pragma once

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
class StoreLoop;

class StoreCodec {
 public:
  virtual ~StoreCodec() = default;

  /// Bytes have come, or there is room for replies again: consumes what is complete of connection.unread() as long as
  /// connection.takes_replies(), and answers. What it throws closes the connection, with a line in the log.
  virtual void take(StoreConnection& connection) = 0;

  /// The connection is closed: `how` the client has ended or broken it, or "", if this side did.
  virtual void left(StoreConnection& connection, const std::string& how) = 0;
};

class StoreConnection : public std::enable_shared_from_this<StoreConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  StoreConnection(asio::ip::tcp::socket socket, std::uint64_t id, std::string address,
                  std::unique_ptr<StoreCodec> codec, StoreLoop& loop);

  std::uint64_t id() const { return id_; }
  const std::string& address() const { return address_; }
  Clock::time_point since() const { return since_; }
  int descriptor() { return socket_.native_handle(); }

  /// Reads from now on. A client that has not been admitted when `patience` is over is closed; 0: it is at once.
  void start(std::chrono::milliseconds patience);
  void admit();

  std::span<const std::byte> unread() const { return std::span(in_).subspan(begin_, end_ - begin_); }
  void consume(std::size_t count) { begin_ += count; }

  /// Queues a reply; those to requests that came together leave together.
  void send(std::string message);
  /// False: no more requests are to be taken until the client has taken its replies.
  bool takes_replies();
  void close_after_replies() { closes_ = true; }

  /// Leaves the loop, at once. `how`: as StoreCodec::left().
  void close(const std::string& how = {});

 private:
  std::size_t unsent() const { return sending_.size() + out_.size(); }
  void read();
  void proceed();
  void show_out(const std::string& why);
  void make_room();
  void write();

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  const Clock::time_point since_ = Clock::now();
  const std::uint64_t id_;
  const std::string address_;
  StoreLoop& loop_;
  const std::unique_ptr<StoreCodec> codec_;
  bool admitted_ = false;
  bool closed_ = false;
  bool closes_ = false;  // when the replies have left
  bool reading_ = false;
  bool taking_ = false;
  bool stopped_ = false;  // taking requests, for lack of room for replies

  std::vector<std::byte> in_;  // bytes [begin_, end_) have come and are not yet consumed
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string sending_, out_;  // replies that are on their way, and those that follow
};

}  // namespace tutti::comm
