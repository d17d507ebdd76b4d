// RecordingProxy: the man in the middle of a connection between two ranks. It passes bytes on, keeps a copy, and on
// demand changes them or cuts the connection.
#pragma once

#include <tutti/comm/wire/socket.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace tutti::comm::test {

class RecordingProxy {
 public:
  /// Listens on a free port of 127.0.0.1 and connects everybody who comes to `target` there.
  explicit RecordingProxy(std::uint16_t target);
  ~RecordingProxy();

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

  /// What has passed so far in all connections, by direction.
  std::string from_clients() const;
  std::string from_servers() const;

  /// Flips the lowest bit of the last byte of what the server sends next.
  void flip_a_bit_of_the_server() { flip_ = true; }
  /// Passes on half of what the server sends next, and ends both connections in good order (FIN).
  void cut_what_the_server_sends() { cut_ = true; }

 private:
  struct Connection {
    Socket client;
    Socket server;
    std::thread thread;
  };

  void accept_all();
  void pump(Connection& connection);
  bool forward(int from, int to, std::string& record, bool from_server);

  const std::uint16_t target_;
  Socket listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> flip_{false};
  std::atomic<bool> cut_{false};
  mutable std::mutex mutex_;
  std::string from_clients_;
  std::string from_servers_;
  std::list<Connection> connections_;
  std::thread acceptor_;
};

}  // namespace tutti::comm::test
