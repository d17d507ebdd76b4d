#include <tutti/comm/base/error.h>
#include <tutti/tests/support/inproc_transport.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace tutti::test {
namespace {

using namespace comm;

struct Message {
  FrameHeader header;
  std::vector<std::byte> payload;
  std::size_t read = 0;
};

/// All mailboxes of all ranks. Rank r waits on bells_[r]; one mutex is enough for the sizes of tests.
class Network {
 public:
  /// `world_ranks` is empty if the ranks have no other numbers.
  explicit Network(int world_size, std::vector<int> world_ranks = {})
      : world_size_(world_size),
        world_ranks_(std::move(world_ranks)),
        boxes_(static_cast<std::size_t>(world_size * world_size) * kLanes),
        bells_(static_cast<std::size_t>(world_size)) {}

  static constexpr std::size_t kLanes = 3;  // collective, messages, answers

  std::deque<Message>& box(int from, int to, std::size_t lane) {
    return boxes_[(static_cast<std::size_t>(from) * static_cast<std::size_t>(world_size_) +
                   static_cast<std::size_t>(to)) *
                      kLanes +
                  lane];
  }

  struct Bell {
    std::condition_variable rang;
    std::uint64_t wakes = 0;
    bool closed = false;
  };
  Bell& bell(int rank) { return bells_[static_cast<std::size_t>(rank)]; }

  std::mutex mutex;
  const int world_size_;
  const std::vector<int> world_ranks_;
  const bool oversubscribed_ =  // read in every operation; the call takes 10 us
      world_size_ > static_cast<int>(std::thread::hardware_concurrency());

 private:
  std::vector<std::deque<Message>> boxes_;
  std::deque<Bell> bells_;
};

class InprocLink final : public Link {
 public:
  InprocLink(std::shared_ptr<Network> network, int self, int peer, std::size_t lane)
      : network_(std::move(network)), self_(self), peer_(peer), lane_(lane) {}

  int peer() const override { return peer_; }

  void post(Outgoing& frame) override {
    Message message{frame.header, {}, 0};
    const auto* bytes = static_cast<const std::byte*>(frame.payload);
    message.payload.assign(bytes, bytes + frame.header.nbytes);
    std::lock_guard lock(network_->mutex);
    check_open();
    network_->box(self_, peer_, lane_).push_back(std::move(message));
    network_->bell(peer_).rang.notify_all();
    frame.written_ = frame.bytes();
  }

  bool flush() override { return true; }

  const FrameHeader* peek() override {
    std::lock_guard lock(network_->mutex);
    auto& box = network_->box(peer_, self_, lane_);
    if (!box.empty()) return &box.front().header;  // stays in place: only this side pops
    check_open();
    return nullptr;
  }

  std::size_t read(void* into, std::size_t nbytes) override {
    std::lock_guard lock(network_->mutex);
    auto& box = network_->box(peer_, self_, lane_);
    Message& message = box.front();
    const std::size_t n = std::min(nbytes, message.payload.size() - message.read);
    if (n > 0) std::memcpy(into, message.payload.data() + message.read, n);
    message.read += n;
    if (message.read == message.payload.size()) box.pop_front();
    return n;
  }

  bool payload_is_here() override { return true; }

  /// The network's mutex is held.
  bool ready() const { return !network_->box(peer_, self_, lane_).empty() || network_->bell(peer_).closed; }

 private:
  void check_open() const {
    for (int rank : {peer_, self_})
      if (network_->bell(rank).closed)
        throw Error(ErrorCode::PeerLost, "rank " + std::to_string(rank) + " has closed its connections");
  }

  std::shared_ptr<Network> network_;
  int self_;
  int peer_;
  std::size_t lane_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {
    for (int peer = 0; peer < network_->world_size_; ++peer) {
      collective_.emplace_back(network_, rank, peer, 0);
      messages_.emplace_back(network_, rank, peer, 1);
      answers_.emplace_back(network_, rank, peer, 2);
    }
  }
  ~InprocTransport() override { close(); }

  int rank() const override { return rank_; }
  int world_size() const override { return network_->world_size_; }
  Link& collective(int peer) override { return collective_[static_cast<std::size_t>(peer)]; }
  Link& messages(int peer) override { return messages_[static_cast<std::size_t>(peer)]; }
  Link& answers(int peer) override { return answers_[static_cast<std::size_t>(peer)]; }
  bool service() override { return false; }

  void wait(std::span<Link* const> links, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(network_->mutex);
    auto& bell = network_->bell(rank_);
    const auto wakes = bell.wakes;
    bell.rang.wait_for(lock, timeout, [&] {
      return bell.wakes != wakes || bell.closed ||
             std::ranges::any_of(links, [](Link* link) { return static_cast<InprocLink*>(link)->ready(); });
    });
  }

  void wake() override {
    std::lock_guard lock(network_->mutex);
    ++network_->bell(rank_).wakes;
    network_->bell(rank_).rang.notify_all();
  }

  void close() override {
    std::lock_guard lock(network_->mutex);
    network_->bell(rank_).closed = true;
    for (int rank = 0; rank < network_->world_size_; ++rank) network_->bell(rank).rang.notify_all();
  }

  std::string describe(int peer) const override {
    const auto& ranks = network_->world_ranks_;
    return "rank " + std::to_string(peer) + " (" +
           (ranks.empty() ? "" : "rank " + std::to_string(ranks[static_cast<std::size_t>(peer)]) + " of the world; ") +
           "a thread of this process)";
  }
  std::string_view name() const override { return "inproc"; }
  bool oversubscribed() const override { return network_->oversubscribed_; }

 private:
  std::shared_ptr<Network> network_;
  int rank_;
  std::deque<InprocLink> collective_;
  std::deque<InprocLink> messages_;
  std::deque<InprocLink> answers_;
};

/// The groups that are being formed: each is kept until all its members have joined.
class Networks {
 public:
  std::shared_ptr<Network> join(const GroupMembers& members, int world_size) {
    std::lock_guard lock(mutex_);
    Forming& forming = forming_[members.name];
    const auto p = members.world_ranks.size();
    if (!forming.network)
      forming.network = std::make_shared<Network>(
          static_cast<int>(p), members.is_whole_world(world_size) ? std::vector<int>() : members.world_ranks);
    std::shared_ptr<Network> network = forming.network;
    if (++forming.joined == p) forming_.erase(members.name);
    return network;
  }

 private:
  struct Forming {
    std::shared_ptr<Network> network;
    std::size_t joined = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Forming> forming_;
};

class InprocFactory final : public TransportFactory {
 public:
  InprocFactory(std::shared_ptr<Networks> networks, int world_size)
      : networks_(std::move(networks)), world_size_(world_size) {}

  std::unique_ptr<Transport> make(const GroupMembers& members, Deadline) override {
    return std::make_unique<InprocTransport>(networks_->join(members, world_size_), members.rank);
  }

 private:
  const std::shared_ptr<Networks> networks_;
  const int world_size_;
};

}  // namespace

std::vector<std::shared_ptr<TransportFactory>> make_inproc_factories(int world_size) {
  const auto networks = std::make_shared<Networks>();
  std::vector<std::shared_ptr<TransportFactory>> factories;
  for (int rank = 0; rank < world_size; ++rank)
    factories.push_back(std::make_shared<InprocFactory>(networks, world_size));
  return factories;
}

std::vector<std::unique_ptr<Transport>> make_inproc_transports(int world_size) {
  auto network = std::make_shared<Network>(world_size);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < world_size; ++rank) transports.push_back(std::make_unique<InprocTransport>(network, rank));
  return transports;
}

}  // namespace tutti::test
