#include <sys/socket.h>
#include <sys/un.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/doorbell.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>

namespace tutti::comm {
namespace {

/// In the abstract name space: the first byte is 0, nothing appears in the file system, and the name ends with us.
socklen_t name_bell(sockaddr_un& address, std::uint64_t nonce, int index) {
  address = {};
  address.sun_family = AF_UNIX;
  char* const end = std::end(address.sun_path);
  char* at = std::ranges::copy(std::string_view("tutti-"), address.sun_path + 1).out;
  at = std::to_chars(at, end, nonce, 16).ptr;
  *at++ = '-';
  at = std::to_chars(at, end, index).ptr;  // not by printf: this is done at each ring
  return static_cast<socklen_t>(at - reinterpret_cast<char*>(&address));
}

}  // namespace

Doorbell::Doorbell(std::uint64_t nonce, int index) : nonce_(nonce) {
  descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t length = name_bell(address, nonce, index);
  if (descriptor_ >= 0 && ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), length) == 0) return;
  const int error = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  throw Error(ErrorCode::System, "a local socket to be woken by: " + std::generic_category().message(error));
}

Doorbell::~Doorbell() { ::close(descriptor_); }

void Doorbell::silence() noexcept {
  std::array<char, 8> bytes;
  while (::recv(descriptor_, bytes.data(), bytes.size(), 0) >= 0) {
  }
}

bool Doorbell::ring(int index) noexcept {
  sockaddr_un address;
  const socklen_t length = name_bell(address, nonce_, index);
  const char byte = 0;
  // A full queue is no failure: it has been rung often enough.
  return ::sendto(descriptor_, &byte, 1, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length) == 1 ||
         errno == EAGAIN;
}

}  // namespace tutti::comm
