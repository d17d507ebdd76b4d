// TcpLink: a stream of any bytes, read in portions of any size, gives the frames that lie in it, byte for byte, and
// then an error that says what is wrong: bytes that are no header, or the end.
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <asio/io_context.hpp>
#include <vector>

#include "fuzz_input.h"

namespace {

using namespace tutti;
using Bytes = std::span<const std::byte>;

/// The link may need a second look to see the end, but all has come: it never says "not yet" for long.
const comm::FrameHeader& next_frame(comm::Link& link) {
  for (int look = 0; look < 3; ++look)
    if (const auto* header = link.peek()) return *header;
  fuzz::require(false, "a frame, or an error");
  std::abort();
}

/// Reads one frame; its payload must be the beginning of `stream`, which is taken off.
void read_frame(comm::Link& link, fuzz::Input& choices, Bytes& stream) {
  const comm::FrameHeader header = next_frame(link);
  stream = stream.subspan(comm::kFrameHeaderBytes);
  if (header.nbytes == 0) link.read(nullptr, 0);
  std::vector<std::byte> portion(64 * 1024);
  int empty_reads = 0;
  for (std::uint64_t left = header.nbytes; left > 0;) {
    const std::size_t wanted = 1 + choices.number<std::uint16_t>();
    const std::size_t came = link.read(portion.data(), std::min<std::size_t>(wanted, portion.size()));
    fuzz::require(came <= wanted && came <= left, "a read gives no more than wanted");
    fuzz::require(came > 0 || ++empty_reads < 3, "all has come: a read gives it, or an error");
    fuzz::require(std::equal(portion.begin(), portion.begin() + static_cast<std::ptrdiff_t>(came), stream.begin()),
                  "a payload comes as it was sent");
    stream = stream.subspan(came);
    left -= came;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 64 * 1024) return 0;  // more than fits into the socket at once
  fuzz::Input input(data, size);
  fuzz::Input choices = input;
  choices.take(input.number<std::uint8_t>());
  Bytes stream = input.rest();
  int ends[2];
  fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  asio::io_context context;
  asio::ip::tcp::socket peer(context, asio::ip::tcp::v4(), ends[1]);
  comm::RunsAhead runs_ahead;
  comm::TcpLink link(
      1, comm::TcpLink::Opener::Peer, nullptr, [] { return std::string("rank 1"); }, runs_ahead);
  asio::ip::tcp::socket own(context, asio::ip::tcp::v4(), ends[0]);
  own.non_blocking(true);
  link.adopt(comm::ByteStream(std::move(own)));
  if (!stream.empty())
    fuzz::require(::send(ends[1], stream.data(), stream.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(stream.size()),
                  "room");
  peer.shutdown(asio::ip::tcp::socket::shutdown_send);
  try {
    for (;;) read_frame(link, choices, stream);
  } catch (const comm::Error& error) {
    const bool ended = error.code() == comm::ErrorCode::PeerLost;
    fuzz::require(ended || error.code() == comm::ErrorCode::Protocol, "a link ends with PeerLost or Protocol");
    fuzz::require(std::string(error.what()).find("rank 1") != std::string::npos, "and names the peer");
    fuzz::require(ended || stream.size() >= comm::kFrameHeaderBytes, "a wrong header has all its bytes");
  }
  return 0;
}
