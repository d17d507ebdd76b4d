#include <tutti/comm/transport/shm/shm_transport.h>

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

ShmTransport::ShmTransport(std::unique_ptr<TcpTransport> tcp, std::unique_ptr<Neighbours> neighbours,
                           std::uint64_t group)
    : tcp_(std::move(tcp)), neighbours_(std::move(neighbours)), lanes_(static_cast<std::size_t>(tcp_->world_size())) {
  for (int index = 0; index < neighbours_->size(); ++index) {
    if (index == neighbours_->self()) continue;
    Lanes& lanes = lanes_[static_cast<std::size_t>(neighbours_->rank_of(index))];
    for (int lane = 0; lane < 3; ++lane) lanes[static_cast<std::size_t>(lane)] = link(index, lane, group);
  }
}

ShmTransport::~ShmTransport() { close(); }

std::unique_ptr<ShmLink> ShmTransport::link(int index, int lane, std::uint64_t group) {
  const HostSegment& segment = neighbours_->segment();
  const int self = neighbours_->self();
  const int peer = neighbours_->rank_of(index);
  return std::make_unique<ShmLink>(
      *neighbours_, peer,
      ShmLink::Rings{.out = RingMemory(segment.ring(self, index, lane), segment.ring_bytes()),
                     .in = RingMemory(segment.ring(index, self, lane), segment.ring_bytes())},
      group, [this, peer] { return describe(peer); });
}

void ShmTransport::sleep(std::span<Link* const> others, const std::vector<int>& neighbours,
                         std::chrono::milliseconds timeout) {
  std::vector<pollfd> more;
  neighbours_->add_to(more, neighbours);
  tcp_->wait_also(others, more, timeout);
  if (neighbours_->after_poll(more, 0, neighbours)) tcp_->wake();  // other threads may sleep beside the bell
}

void ShmTransport::wait(std::span<Link* const> links, std::chrono::milliseconds timeout) {
  const Neighbours::Sleeper sleeper(*neighbours_);
  std::vector<Link*> others;
  std::vector<int> neighbours;
  for (Link* link : links) {
    if (!shares_memory(link->peer())) {
      others.push_back(link);
      continue;
    }
    auto* shared = static_cast<ShmLink*>(link);
    if (shared->ready()) return;
    if (neighbours_->gone(shared->index())) continue;  // its death would end every sleep
    if (std::ranges::find(neighbours, shared->index()) == neighbours.end()) neighbours.push_back(shared->index());
  }
  sleep(others, neighbours, timeout);
}

void ShmTransport::wake() {
  tcp_->wake();
  neighbours_->wake_self();
}

void ShmTransport::close() {
  neighbours_->close();
  tcp_->close();
  neighbours_->wake_self();
}

}  // namespace tutti::comm
