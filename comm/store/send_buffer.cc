#include <sys/socket.h>
#include <tutti/comm/store/send_buffer.h>

#include <cerrno>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::size_t kKeptCapacity = 4096;  // an idle connection keeps no more than this

}  // namespace

void SendBuffer::append(std::string bytes) {
  if (bytes_.empty()) {
    bytes_ = std::move(bytes);
  } else {
    bytes_ += bytes;
  }
}

int SendBuffer::flush(int socket) {
  while (unsent() > 0) {
    const ssize_t count = ::send(socket, bytes_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Moving what is left is paid for by what has left.
      if (sent_ > bytes_.size() / 2) bytes_.erase(0, std::exchange(sent_, 0));
      return EAGAIN;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  sent_ = 0;
  bytes_.clear();
  if (bytes_.capacity() > kKeptCapacity) bytes_ = std::string();
  return 0;
}

}  // namespace tutti::comm
