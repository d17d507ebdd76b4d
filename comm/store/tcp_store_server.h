// TcpStoreServer: holds the keys of a job and answers TcpStore clients.
//
// One thread, one event loop; a slow, hostile or half-open client delays no other. Nothing is read from a connection
// but the fixed-size handshake until it has proved the job secret. Every length from the wire is checked against a
// limit before memory is taken (key 8 KiB, value 64 MiB, 128 Ki keys a call).
//
// When a client that is a rank goes away without saying goodbye, the server sets the key "tutti/lost/<rank>" to a text
// with its pid and address, and adds it to the numbers in "tutti/lost": others learn from these at once that a process
// has died. When the rank connects again the server deletes both.
//
// Descriptors: one for each client. With a world size given the constructor makes room for one connection of each rank,
// up to the hard limit of RLIMIT_NOFILE. Where they run out all the same, the limit is raised; then connections that
// have not finished the handshake within a second are closed; else newcomers wait in the backlog.
//
// Requests that make no sense are answered with an error reply; the connection stays in step and open. Strangers are
// logged (level Warn, 100 of them in 10 s, more are counted) with address and first bytes, and closed.
//
// Thread-safety: methods may be called from any thread. The destructor stops the loop and closes all connections; in a
// forked child it does nothing, since the loop lives in the parent.
#pragma once

#include <tutti/comm/base/deadline.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace tutti::comm {

struct TcpStoreServerOptions {
  std::string bind_address = "127.0.0.1";  // exactly this address is bound, nothing wider; "" or "::" = all interfaces
  std::uint16_t port = 0;                  // 0: the kernel picks one; read it back with port()
  std::string job_id = "default";
  std::string job_secret = "";
  int world_size = -1;                                  // -1: clients of any world size
  std::chrono::milliseconds handshake_timeout{10'000};  // a connection that has not proved the secret by then is closed
};

class TcpStoreServer {
 public:
  /// Binds, listens and starts serving. Throws InvalidArgument if the address cannot be resolved, System if the address
  /// is taken; the text names the address and, where the system tells, the process that holds it. System, too, if this
  /// process may not open as many descriptors as the world has ranks.
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  std::uint16_t port() const;

  /// For an owner that knows that a rank's process has ended: if it never connected it is lost, and `text` says how.
  void rank_ended(int rank, const std::string& text);

  /// Waits until no authenticated client is connected; false if some still are at `deadline`. Lets the owner of the
  /// server be the last to go. In a forked child, which serves no client, true at once.
  bool wait_until_unused(Deadline deadline) const;

  /// The same, and then closes the port, which is free for a later server at once. False, too, as soon as a rank is
  /// here that has come more often than rank 0: it waits for rank 0 to meet it once more, at this server. To be called
  /// by one thread at a time.
  bool close_when_unused(Deadline deadline);

 private:
  class Impl;
  int owner_pid_;
  std::unique_ptr<Impl> impl_;
};

inline constexpr char kLostKeyPrefix[] = "tutti/lost/";
inline constexpr char kLostRanksKey[] = "tutti/lost";  // "3 17": the ranks that are lost; missing while none is

}  // namespace tutti::comm
