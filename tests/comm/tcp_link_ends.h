// A TcpLink with the other end of its connection in the test's hands, and frames for it.
#pragma once

#include <gtest/gtest.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace tutti::comm {

using Bytes = std::vector<std::byte>;

/// A link to rank 1, and the other end of its connection.
class LinkEnds {
 public:
  explicit LinkEnds(bool fills_short_frames)
      : link(
            1, nullptr, [] { return std::string("rank 1"); }, fills_short_frames),
        far(context_) {
    asio::ip::tcp::acceptor acceptor(context_, {asio::ip::address_v4::loopback(), 0});
    far.connect(acceptor.local_endpoint());
    asio::ip::tcp::socket near = acceptor.accept();
    prepare(near);
    prepare(far);
    far.non_blocking(false);
    link.adopt(ByteStream(std::move(near)));
    EXPECT_EQ(link.peek(), nullptr);  // connected from now on
  }

  Bytes receive(std::size_t nbytes) {
    Bytes bytes(nbytes);
    asio::read(far, asio::buffer(bytes));
    return bytes;
  }

  /// What lies ready at the other end.
  Bytes take() { return receive(far.available()); }

 private:
  asio::io_context context_;

 public:
  TcpLink link;
  asio::ip::tcp::socket far;
};

inline FrameHeader header_of(FrameKind kind, std::size_t nbytes, std::uint64_t id = 0) {
  return {.kind = kind, .fingerprint = {.count = nbytes, .op = OpKind::Send}, .nbytes = nbytes, .id = id};
}

inline Bytes payload_of(std::size_t nbytes, std::uint64_t id = 0) {
  Bytes bytes(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(7 * i + id + 1);
  return bytes;
}

inline void append(Bytes& stream, FrameKind kind, std::size_t nbytes) {
  const FrameBytes header = encode(header_of(kind, nbytes));
  stream.insert(stream.end(), header.begin(), header.end());
  const Bytes payload = payload_of(nbytes);
  stream.insert(stream.end(), payload.begin(), payload.end());
}

}  // namespace tutti::comm
