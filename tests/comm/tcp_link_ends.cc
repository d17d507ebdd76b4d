#include "tcp_link_ends.h"

#include <gtest/gtest.h>
#include <tutti/comm/transport/tcp/socket_util.h>

#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <string>

namespace tutti::comm {

struct LinkEnds::Far {
  asio::io_context context;
  asio::ip::tcp::socket socket{context};
};

LinkEnds::LinkEnds()
    : far_(std::make_unique<Far>()),
      link(
          1, TcpLink::Opener::Peer, nullptr, [] { return std::string("rank 1"); }, runs_ahead_) {
  asio::ip::tcp::acceptor acceptor(far_->context, {asio::ip::address_v4::loopback(), 0});
  far_->socket.connect(acceptor.local_endpoint());
  asio::ip::tcp::socket near = acceptor.accept();
  prepare(near);
  prepare(far_->socket);
  far_->socket.non_blocking(false);
  link.adopt(ByteStream(std::move(near)));
  EXPECT_EQ(link.peek(), nullptr);  // connected from now on
}

LinkEnds::~LinkEnds() = default;

void LinkEnds::send(std::span<const std::byte> bytes) {
  asio::write(far_->socket, asio::buffer(bytes.data(), bytes.size()));
}

void LinkEnds::end() { far_->socket.shutdown(asio::ip::tcp::socket::shutdown_send); }

Bytes LinkEnds::receive(std::size_t nbytes) {
  Bytes bytes(nbytes);
  asio::read(far_->socket, asio::buffer(bytes));
  return bytes;
}

int LinkEnds::far_handle() { return far_->socket.native_handle(); }

Bytes LinkEnds::take() { return receive(far_->socket.available()); }

}  // namespace tutti::comm
