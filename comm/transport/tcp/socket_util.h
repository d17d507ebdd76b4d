// Small helpers over Asio's sockets. Internal to tcp/.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <string>

namespace tutti::comm {

/// "10.0.0.2:4000", "[::1]:4000".
std::string to_string(const asio::ip::tcp::endpoint& endpoint);

/// Parses what to_string wrote. Throws InvalidArgument quoting the text.
asio::ip::tcp::endpoint parse_endpoint(const std::string& text);

/// Non-blocking, close-on-exec, no Nagle delay.
void prepare(asio::ip::tcp::socket& socket);

/// Whether both ends are on this host, by their addresses; false if it is not connected.
bool stays_on_this_host(const asio::ip::tcp::socket& socket);

/// For a socket that has just been connected. Within a host there is no path to share with others, so what a system may
/// use for the internet (BBR paces, and measures a path that is none) is replaced by Reno, which is always there.
void prepare_connected(asio::ip::tcp::socket& socket);

}  // namespace tutti::comm
