#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/shm_link.h>

#include <utility>

namespace tutti::comm {
namespace {

constexpr unsigned kIgnored = 3;  // several threads may wait, and one of them may be about to look

}  // namespace

ShmLink::ShmLink(Neighbours& neighbours, int peer, Rings rings, std::uint64_t group,
                 std::function<std::string()> describe)
    : neighbours_(neighbours),
      peer_(peer),
      index_(neighbours.index_of(peer)),
      rings_(rings),
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

bool ShmLink::flush() {
  bool wrote = false;
  while (!queue_.empty() && writer_.write(*queue_.front())) {
    wrote = true;
    if (queue_.front()->done()) queue_.pop_front();
    neighbours_.nudge(index_);
  }
  note_writer();
  if (!wrote && !queue_.empty()) check_peer();
  return queue_.empty();
}

void ShmLink::note_reader() { cursor_.store(reader_.cursor(), std::memory_order_relaxed); }

void ShmLink::note_writer() {
  write_position_.store(writer_.position(), std::memory_order_relaxed);
  has_queue_.store(!queue_.empty(), std::memory_order_relaxed);
}

const FrameHeader* ShmLink::peek() {
  const FrameHeader* header = reader_.peek();
  note_reader();
  if (!header) looked();
  if (header || !(neighbours_.gone(index_) || neighbours_.gone(neighbours_.self()))) return header;
  header = reader_.peek();  // what it wrote before it went is there by now
  note_reader();
  if (!header) check_peer();
  return header;
}

std::size_t ShmLink::read(void* into, std::size_t nbytes) {
  const std::size_t got = reader_.read(into, nbytes);
  note_reader();
  looked();
  if (got > 0) neighbours_.nudge(index_);  // there is room now
  if (got == 0 && nbytes > 0 && reader_.readable().empty()) check_peer();
  return got;
}

void ShmLink::consume(std::size_t nbytes) {
  reader_.consume(nbytes);
  note_reader();
  looked();
  neighbours_.nudge(index_);
}

bool ShmLink::ready() {
  if (has_queue_.load(std::memory_order_relaxed) &&
      has_room(rings_.out, write_position_.load(std::memory_order_relaxed)))
    return true;
  const bool news = has_news(rings_.in, cursor_.load(std::memory_order_relaxed)) || neighbours_.gone(index_) ||
                    neighbours_.gone(neighbours_.self());
  return news && ignored_.fetch_add(1, std::memory_order_relaxed) < kIgnored;
}

}  // namespace tutti::comm
