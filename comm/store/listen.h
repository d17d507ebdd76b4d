// Opening the store server's listening socket. Internal to comm/store.
#pragma once

#include <tutti/comm/wire/socket.h>

#include <cstdint>
#include <string>

namespace tutti::comm {

/// Binds exactly `bind_address` ("" or "::" = all interfaces, IPv4 and IPv6) and listens; port 0 lets the kernel pick.
/// The socket does not block. Throws InvalidArgument if the address cannot be resolved, System if it cannot be bound;
/// when the port is taken, the text names the process that holds it, where the system lets us see it.
Socket listen_on(const std::string& bind_address, std::uint16_t port);

/// "pid 4711 (nginx)" of the process that listens on a local TCP port, or "" if that cannot be seen.
std::string port_holder(std::uint16_t port);

}  // namespace tutti::comm
