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

/// How much a packet of this connection holds; 0 if it is none.
std::size_t packet_bytes(int socket);

/// Whether the kernel holds back what is shorter than a packet until all before it is acknowledged (Nagle's algorithm).
/// When that ends, it sends what it has held back.
void hold_back(int socket, bool held);

/// Acknowledges what has been read, without waiting for something to send along; and later bytes likewise, or as late
/// as possible, in hope of an answer.
void acknowledge_now(int socket, bool later_ones_too);

/// Whether both ends are on this host, by their addresses; false if it is not connected.
bool stays_on_this_host(const asio::ip::tcp::socket& socket);

/// For a socket that has just been connected. Within a host, which has no path to share, replaces a congestion control
/// for the internet (BBR paces, and measures a path that is none) by Reno, which every kernel has.
void prepare_connected(asio::ip::tcp::socket& socket);

}  // namespace tutti::comm
