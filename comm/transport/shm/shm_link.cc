#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/shm_link.h>

#include <utility>

namespace tutti::comm {
namespace {

constexpr unsigned kIgnored = 3;  // several threads may wait, and one of them may be about to read

}  // namespace

ShmLink::ShmLink(Neighbours& neighbours, int peer, Rings rings, std::uint64_t group,
                 std::function<std::string()> describe)
    : neighbours_(neighbours),
      peer_(peer),
      index_(neighbours.index_of(peer)),
      writer_(rings.out),
      reader_(rings.in, group),
      describe_(std::move(describe)) {}

void ShmLink::check_peer() {
  if (neighbours_.gone(neighbours_.self()))
    throw Error(ErrorCode::PeerLost, "lost " + describe_() + ": this rank has closed its connections");
  if (neighbours_.gone(index_))
    throw Error(ErrorCode::PeerLost, "lost " + describe_() + ": " + neighbours_.reason(index_));
}

void ShmLink::post(Outgoing& frame) {
  frame.written_ = 0;
  queue_.push_back(&frame);
  if (queue_.size() == 1) flush();
}

bool ShmLink::post_whole(const FrameHeader& header, const void* payload) {
  if (!queue_.empty() || !writer_.write_whole(header, payload, neighbours_.is_far(index_))) return false;
  neighbours_.nudge(index_);
  return true;
}

bool ShmLink::flush() {
  bool wrote = false;
  while (!queue_.empty() && writer_.write(*queue_.front(), neighbours_.is_far(index_))) {
    wrote = true;
    if (queue_.front()->done()) queue_.pop_front();
    neighbours_.nudge(index_);
  }
  if (!wrote && !queue_.empty()) check_peer();
  writer_.wait_for_room(!queue_.empty());
  return queue_.empty();
}

const FrameHeader* ShmLink::peek() {
  const FrameHeader* header = reader_.peek();
  if (!header) looked();  // a frame that peek() returns again and again, and nothing reads, does not count
  if (header || !(neighbours_.gone(index_) || neighbours_.gone(neighbours_.self()))) return header;
  header = reader_.peek();  // all that it wrote before it left is visible by now
  if (!header) check_peer();
  return header;
}

std::size_t ShmLink::read(void* into, std::size_t nbytes) {
  looked();
  const std::size_t got = reader_.read(into, nbytes);
  if (got > 0) neighbours_.nudge(index_);  // there is room now
  if (got == 0 && nbytes > 0 && reader_.readable().empty()) check_peer();
  return got;
}

void ShmLink::consume(std::size_t nbytes) {
  looked();
  reader_.consume(nbytes);
  neighbours_.nudge(index_);
}

bool ShmLink::ready() {
  if (writer_.can_go_on()) return true;
  if (ignored_.load(std::memory_order_relaxed) >= kIgnored) return false;
  const bool news = has_news();
  if (news) ignored_.fetch_add(1, std::memory_order_relaxed);
  return news;
}

}  // namespace tutti::comm
