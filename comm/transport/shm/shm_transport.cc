#include <tutti/comm/transport/shm/shm_transport.h>

#include <algorithm>
#include <utility>

namespace tutti::comm {
namespace {

// Lanes of the rings of an ordered pair of ranks.
constexpr int kCollective = 0;
constexpr int kMessages = 1;
constexpr int kAnswers = 2;

// A neighbour answers sooner than a wake-up takes, even when it first has to get a CPU.
constexpr std::chrono::microseconds kPatience(300);

}  // namespace

ShmTransport::ShmTransport(std::unique_ptr<TcpTransport> tcp, std::unique_ptr<Neighbours> neighbours,
                           std::uint64_t group)
    : tcp_(std::move(tcp)), neighbours_(std::move(neighbours)), lanes_(static_cast<std::size_t>(tcp_->world_size())) {
  for (int index = 0; index < neighbours_->size(); ++index) {
    if (index == neighbours_->self()) continue;
    Lanes& lanes = lanes_[static_cast<std::size_t>(neighbours_->rank_of(index))];
    lanes.collective = link(index, kCollective, group);
    lanes.messages = link(index, kMessages, group);
    lanes.answers = link(index, kAnswers, group);
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

Link& ShmTransport::collective(int peer) {
  return lanes(peer).collective ? *lanes(peer).collective : tcp_->collective(peer);
}
Link& ShmTransport::messages(int peer) { return lanes(peer).messages ? *lanes(peer).messages : tcp_->messages(peer); }
Link& ShmTransport::answers(int peer) { return lanes(peer).answers ? *lanes(peer).answers : tcp_->answers(peer); }

std::chrono::microseconds ShmTransport::patience() const { return kPatience; }

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
    if (!lanes(link->peer()).collective) {
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
