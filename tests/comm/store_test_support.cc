#include "store_test_support.h"

#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace tutti::comm::test {

RawConnection::RawConnection(std::uint16_t port) {
  std::string error;
  const auto endpoints = resolve("127.0.0.1", port, ResolveFor::Connecting, error);
  if (endpoints.empty()) throw Error(ErrorCode::System, error);
  socket_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket_.get(), endpoints[0].address(), endpoints[0].length) != 0) throw_errno("connect", errno);
}

void RawConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) throw_errno("send", errno);
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    if (count < 0 && !poll_until(socket_.get(), POLLOUT, soon())) throw Error(ErrorCode::Timeout, "send");
  }
}

std::string RawConnection::receive(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t have = 0; have < count;) {
    if (!poll_until(socket_.get(), POLLIN, soon())) throw Error(ErrorCode::Timeout, "receive");
    const ssize_t got = ::recv(socket_.get(), bytes.data() + have, count - have, 0);
    if (got == 0) throw Error(ErrorCode::PeerLost, "the connection was closed");
    if (got < 0) throw_errno("receive", errno);
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool RawConnection::closed_by_peer() {
  char byte = 0;
  for (;;) {
    if (!poll_until(socket_.get(), POLLIN, soon())) return false;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0) return false;
  }
}

ClosedPort::ClosedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  std::string error;
  const Endpoint any = resolve("127.0.0.1", 0, ResolveFor::Binding, error).at(0);
  if (::bind(socket_.get(), any.address(), any.length) != 0) throw_errno("bind", errno);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TemporaryFolder::TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "tutti_store_XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw_errno("create " + path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tutti::comm::test
