// TcpLink: a stream of any bytes, read in portions of any size, expected or not, gives the frames that lie in it,
// byte for byte, and then an error that says what is wrong: bytes that are no header, or the end.
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
const comm::FrameHeader& next_frame(comm::Link& link, std::span<std::byte> room) {
  for (int look = 0; look < 3; ++look)
    if (const auto* header = link.peek_into(room)) return *header;
  fuzz::require(false, "a frame, or an error");
  std::abort();
}

/// The length of the next payload, as far as the stream tells; else 0.
std::uint64_t next_length(Bytes stream) try {
  if (stream.size() < comm::kFrameHeaderBytes) return 0;
  return comm::decode_frame(stream.first<comm::kFrameHeaderBytes>()).nbytes;
} catch (const comm::Error&) {
  return 0;
}

/// How long a payload is expected: not at all, of any length, or as long as the next one.
std::size_t expected_length(fuzz::Input& choices, Bytes stream) {
  const int choice = choices.number<std::uint8_t>() % 4;
  if (choice == 0) return 0;
  if (choice == 1) return choices.number<std::uint16_t>();
  return std::min<std::uint64_t>(next_length(stream), 64 * 1024);
}

/// Reads one frame; its payload must be the beginning of `stream`, which is taken off.
void read_frame(comm::Link& link, fuzz::Input& choices, Bytes& stream) {
  std::vector<std::byte> room(expected_length(choices, stream));
  const comm::FrameHeader header = next_frame(link, room);
  const bool stays = header.nbytes == room.size() && choices.number<std::uint8_t>() % 4 != 0;
  if (!stays) {
    link.take_back();
    std::ranges::fill(room, std::byte{0xee});
  }
  stream = stream.subspan(comm::lead_bytes(header.nbytes));
  if (header.nbytes == 0) link.read(nullptr, 0);
  std::vector<std::byte> elsewhere(64 * 1024);
  int empty_reads = 0;
  for (std::uint64_t left = header.nbytes; left > 0;) {
    const std::size_t wanted = 1 + choices.number<std::uint16_t>();
    std::byte* const portion = stays ? room.data() + (header.nbytes - left) : elsewhere.data();
    const std::size_t came = link.read(portion, std::min<std::size_t>(wanted, stays ? left : elsewhere.size()));
    fuzz::require(came <= wanted && came <= left, "a read gives no more than wanted");
    fuzz::require(came > 0 || ++empty_reads < 3, "all has come: a read gives it, or an error");
    fuzz::require(std::equal(portion, portion + came, stream.begin()), "a payload comes as it was sent");
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
