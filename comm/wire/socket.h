// The few POSIX socket pieces that stores, rendezvous and launcher share. Internal to Tutti.
//
// Thread-safety: values; one Socket belongs to one thread at a time.
#pragma once

#include <sys/socket.h>
#include <tutti/comm/base/deadline.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::comm {

/// Owns one descriptor; always CLOEXEC.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  void close();

 private:
  int descriptor_ = -1;
};

/// An address with a port. An IPv4 address mapped into IPv6 shows itself as IPv4.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::string host() const;  // "10.0.0.2", "::1"
  std::uint16_t port() const;
  std::string text() const;  // "10.0.0.2:29500", "[::1]:29500"
};

Endpoint local_endpoint(int socket);   // throws System
Endpoint remote_endpoint(int socket);  // throws System

enum class ResolveFor { Connecting, Binding };

/// All stream addresses of `host` (a number or a name), in the system's order. On failure returns none and puts the
/// resolver's words into `error`.
std::vector<Endpoint> resolve(const std::string& host, std::uint16_t port, ResolveFor purpose, std::string& error);

/// The same for connecting, by a deadline, which getaddrinfo(3) does not know: a name is looked up by a thread of its
/// own, and one that has not ended in time is left behind and ends with the resolver's own patience. A number is taken
/// as it is.
std::vector<Endpoint> resolve_within(const std::string& host, std::uint16_t port, Deadline deadline,
                                     std::string& error);

/// The addresses that a look-up found, or else why it found none.
struct LookUpResult {
  std::vector<Endpoint> endpoints;
  std::string error;
};

/// Runs `look_up`, which must own what it uses, in a thread; its result if it ends in time.
LookUpResult look_up_within(std::function<LookUpResult()> look_up, Deadline deadline);

/// Waits until one of `events` (poll(2)), an error or the deadline. False: the deadline passed.
bool poll_until(int socket, short events, Deadline deadline);

/// Connects a non-blocking socket. 0, or errno of what failed; ETIMEDOUT at the deadline, too.
int connect_until(const Socket& socket, const Endpoint& endpoint, Deadline deadline);

/// "host:port", with brackets around an IPv6 number.
std::string host_and_port(const std::string& host, std::uint16_t port);

/// No delay, and probes that notice a host that vanished within half a minute. Failures are ignored: the connection
/// works without.
void tune_connection(int socket);

}  // namespace tutti::comm
