// StoreLoop: the thread, the listening port and the connections of a store server, whatever its clients speak.
//
// One thread, one event loop; nothing in it waits for a client. Where descriptors run out, the soft limit is raised;
// then connections that have not been admitted within a second are closed; else newcomers wait in the backlog.
//
// Thread-safety: port() and post() from any thread; all else on the loop's, where all calls to codecs are made, too.
// The destructor stops the loop and closes all connections, without a call to their codecs' left().
#pragma once

#include <tutti/comm/store/store_connection.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>

namespace tutti::comm {

struct StoreLoopOptions {
  std::string name = "";  // begins its lines in the log: "store"
  std::string bind_address = "";
  std::uint16_t port = 0;
  std::chrono::milliseconds patience{0};  // with a connection that has not been admitted; 0: all are, at once
  int kept_descriptors = 0;               // for the program's own: newcomers are closed rather than given these
};

class StoreLoop {
 public:
  using Clock = StoreConnection::Clock;
  using MakeCodec = std::function<std::unique_ptr<StoreCodec>()>;

  /// Binds and listens (listen.h says what it throws). `make_codec` is called for each connection, once start() has
  /// been.
  StoreLoop(StoreLoopOptions options, MakeCodec make_codec);
  ~StoreLoop() { stop(); }
  StoreLoop(const StoreLoop&) = delete;
  StoreLoop& operator=(const StoreLoop&) = delete;

  /// The owner is ready for its codecs to be called.
  void start();
  /// No codec is called any more; as the destructor does.
  void stop();

  std::uint16_t port() const { return port_; }
  template <typename F>
  void post(F&& action) {
    asio::post(context_, std::forward<F>(action));
  }

  StrangerLog& strangers() { return strangers_; }
  /// To the connection with this number, if it is still there.
  void send(std::uint64_t id, std::string message);
  /// Lets no newcomer in any more, and closes connections that have not been admitted.
  void close_port();

  // Of connections.
  void admitted(StoreConnection& connection) { newcomers_.erase(connection.id()); }
  void left(StoreConnection& connection);

 private:
  void run();
  void accept_when_ready();
  void accept_all();
  void accept_later(int error_number);
  bool leaves_room(int descriptor) const;
  bool close_silent();
  void welcome(Socket accepted, const Endpoint& peer);

  const StoreLoopOptions options_;
  const MakeCodec make_codec_;
  std::uint16_t port_ = 0;
  asio::io_context context_{1};
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer accept_retry_;
  StrangerLog strangers_;
  bool told_of_refusal_ = false;  // since a connection was last accepted
  std::uint64_t next_id_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<StoreConnection>> connections_;
  std::set<std::uint64_t> newcomers_;  // connections that have not been admitted, the oldest first
  std::thread thread_;
};

}  // namespace tutti::comm
