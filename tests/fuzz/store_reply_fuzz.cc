// The store client's side of a connection: whatever the server answers, a call ends with a reply or an error.
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_client.h>

#include "fuzz_input.h"

namespace {

using namespace tutti;
using comm::ErrorCode;

/// What TcpStore does with a reply of missing keys.
void read_reply(const comm::StoreReply& reply) {
  const comm::MissingKeys missing{{reply.strings.begin(), reply.strings.end()}, static_cast<std::size_t>(reply.number)};
  if (reply.status == comm::StoreStatus::Timeout) comm::missing_keys_text(missing, 1, 0.5);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 64 * 1024) return 0;  // more than fits into the socket at once
  int ends[2];
  fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  comm::Socket server(ends[1]);
  comm::StoreClient client("a server", comm::Socket(ends[0]));
  if (size > 0) fuzz::require(::send(server.get(), data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size), "room");
  ::shutdown(server.get(), SHUT_WR);
  try {
    for (int i = 0; i < 4; ++i) {
      const auto reply = client.call(comm::StoreOp::Get, {0, {"key"}}, comm::Deadline::after(std::chrono::seconds(10)));
      fuzz::require(reply.has_value(), "a call whose server has gone does not wait");
      read_reply(*reply);
    }
  } catch (const comm::Error& error) {
    fuzz::require(error.code() == ErrorCode::Protocol || error.code() == ErrorCode::PeerLost,
                  "a call fails as Protocol or PeerLost");
  }
  return 0;
}
