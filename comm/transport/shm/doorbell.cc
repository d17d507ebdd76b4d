#include <arpa/inet.h>
#include <linux/filter.h>
#include <openssl/rand.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/doorbell.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace tutti::comm {
namespace {

constexpr std::string_view kPrefix = "tutti-";
constexpr socklen_t kNameBytes =
    offsetof(sockaddr_un, sun_path) + 1 + std::tuple_size_v<decltype(DoorbellAddress::name)>;

sockaddr_un abstract(const DoorbellAddress& bell) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(bell.name, address.sun_path + 1);
  return address;
}

DoorbellAddress random_address() {
  DoorbellAddress bell;
  std::array<unsigned char, (sizeof bell.name - kPrefix.size()) / 2> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1 ||
      RAND_bytes(reinterpret_cast<unsigned char*>(bell.key.data()), sizeof bell.key) != 1)
    throw Error(ErrorCode::System, "OpenSSL has no random bytes for the name of a local socket");
  char* at = std::ranges::copy(kPrefix, bell.name.begin()).out;
  for (const unsigned char byte : bytes) {
    *at++ = "0123456789abcdef"[byte >> 4];
    *at++ = "0123456789abcdef"[byte & 15];
  }
  return bell;
}

/// Where the kernel has no filters (some sandboxes), a stranger's datagram costs the rank one poll.
void hear_only(int descriptor, const std::array<std::uint32_t, 2>& key) {
  std::array<sock_filter, 6> code{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(key[0]), 0, 3),
       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(key[1]), 0, 1),
       BPF_STMT(BPF_RET | BPF_K, sizeof key), BPF_STMT(BPF_RET | BPF_K, 0)}};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace

Doorbell::Doorbell(DoorbellAddress& address) {
  address = random_address();
  descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor_ >= 0) hear_only(descriptor_, address.key);
  const sockaddr_un name = abstract(address);
  if (descriptor_ >= 0 && ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&name), kNameBytes) == 0) return;
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

bool Doorbell::ring(const DoorbellAddress& other) noexcept {
  const sockaddr_un name = abstract(other);
  // A full queue is no failure: it has been rung often enough.
  return ::sendto(descriptor_, other.key.data(), sizeof other.key, MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&name), kNameBytes) == sizeof other.key ||
         errno == EAGAIN;
}

}  // namespace tutti::comm
