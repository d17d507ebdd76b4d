#include <sys/socket.h>
#include <tutti/tools/labs/rank_link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::labs {

RankLink::RankLink(const std::filesystem::path& program, const std::filesystem::path& empty_folder,
                   const Limits& limits)
    : process_(program, empty_folder, limits) {}

void RankLink::read_output() {
  char text[4096];
  for (int turn = 0; turn < 16; ++turn) {  // the other ranks have their turn, too
    const ssize_t got = ::read(process_.output(), text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) is_output_open_ = false;
    if (got <= 0) return;
    const auto bytes = static_cast<std::size_t>(got);
    output_.append(text, std::min(bytes, kKeptOutput - std::min(kKeptOutput, output_.size())));
    output_bytes_ += bytes;
  }
}

void RankLink::queue(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  const auto* first = static_cast<const unsigned char*>(data);
  outgoing_.insert(outgoing_.end(), first, first + bytes);
}

void RankLink::flush() {
  while (has_unsent()) {
    const ssize_t sent = ::send(process_.socket(), outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // full, or gone, which receive() sees
    sent_ += static_cast<std::size_t>(sent);
  }
  outgoing_.clear();
  sent_ = 0;
}

bool RankLink::receive() {
  for (int turn = 0; turn < 16; ++turn) {
    unsigned char block[65536];
    const ssize_t got = ::read(process_.socket(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    incoming_.insert(incoming_.end(), block, block + got);
    if (static_cast<std::size_t>(got) < sizeof block) return true;
  }
  return true;
}

std::optional<RankLink::Message> RankLink::next() {
  if (is_broken_ || incoming_.size() - taken_ < sizeof(protocol::Request)) return std::nullopt;
  Message message;
  std::memcpy(&message.request, incoming_.data() + taken_, sizeof message.request);
  if (message.request.magic != protocol::kMagic || message.request.payload_bytes > kMostPayload) {
    is_broken_ = true;
    return std::nullopt;
  }
  const std::size_t whole = sizeof message.request + message.request.payload_bytes;
  if (incoming_.size() - taken_ < whole) return std::nullopt;
  const auto begin = incoming_.begin() + static_cast<std::ptrdiff_t>(taken_ + sizeof message.request);
  message.payload.assign(begin, begin + static_cast<std::ptrdiff_t>(message.request.payload_bytes));
  taken_ += whole;
  if (taken_ == incoming_.size()) {
    incoming_.clear();
    taken_ = 0;
  } else if (taken_ > (std::size_t{1} << 20)) {
    incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
  }
  return message;
}

}  // namespace tutti::labs
