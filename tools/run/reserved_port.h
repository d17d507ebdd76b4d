// ReservedPort: a TCP port that the system gives to nobody else until one of our ranks listens on it.
//
// For programs whose rank 0 brings its own server (PyTorch's env://) the launcher must name a port that it does not
// serve itself. Choosing a free one and letting go of it is a race; this one stays bound, without listening, with
// SO_REUSEADDR set: Linux then lets another socket with SO_REUSEADDR bind and listen there, but takes it out of the
// ports it hands out.
#pragma once

#include <tutti/comm/wire/socket.h>

#include <cstdint>
#include <string>

namespace tutti::tools {

class ReservedPort {
 public:
  /// On an IPv4 or IPv6 address of this host. Throws comm::Error{System} or {InvalidArgument}.
  explicit ReservedPort(const std::string& address);

  std::uint16_t port() const { return port_; }

 private:
  comm::Socket socket_;
  std::uint16_t port_ = 0;
};

}  // namespace tutti::tools
