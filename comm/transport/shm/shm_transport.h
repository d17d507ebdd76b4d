// ShmTransport: shared memory between the ranks of this host, TCP to all others; a world may mix.
//
// Which pairs share memory is decided when the group forms (join.h) and is the same on both sides. A thread that sleeps
// in wait() notices the death of a neighbour through its pidfd. Contract and thread-safety: transport.h.
#pragma once

#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/shm/ring.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

/// The frames exchanged with one rank of this host on one lane, through a ring in each direction. Opening needs
/// nothing: the rings are there from the start.
class ShmLink final : public Link {
 public:
  struct Rings {
    RingMemory out;
    RingMemory in;
  };

  ShmLink(Neighbours& neighbours, int peer, Rings rings, std::uint64_t group, std::function<std::string()> describe);

  int peer() const override { return peer_; }
  void post(Outgoing& frame) override;
  bool post_whole(const FrameHeader& header, const void* payload) override;
  bool flush() override;
  const FrameHeader* peek() override;
  std::size_t read(void* into, std::size_t nbytes) override;
  bool has_news() const override {
    return reader_.has_news() || neighbours_.gone(index_) || neighbours_.gone(neighbours_.self());
  }
  bool payload_is_here() override { return reader_.payload_is_here(); }
  std::span<const std::byte> readable() override { return reader_.readable(); }
  void consume(std::size_t nbytes) override;

  /// Index of the peer among the neighbours.
  int index() const { return index_; }

  /// Whether there is something to do: a frame to read, room for what is queued, or a peer that has gone. An unread
  /// frame counts a few times and then not again before the next peek() (see Transport::wait). Any thread.
  bool ready();

 private:
  void check_peer();
  void looked() {
    if (ignored_.load(std::memory_order_relaxed) > 0) ignored_.store(0, std::memory_order_relaxed);
  }

  Neighbours& neighbours_;
  const int peer_;
  const int index_;
  RingWriter writer_;
  RingReader reader_;
  std::deque<Outgoing*> queue_;
  std::atomic<unsigned> ignored_{0};  // how often ready() was true for an unread frame
  const std::function<std::string()> describe_;
};

class ShmTransport final : public Transport {
 public:
  /// `tcp` reaches the ranks that are no neighbours. `group` is the identity_hash of the group's name.
  ShmTransport(std::unique_ptr<TcpTransport> tcp, std::unique_ptr<Neighbours> neighbours, std::uint64_t group);
  ~ShmTransport() override;

  int rank() const override { return tcp_->rank(); }
  int world_size() const override { return tcp_->world_size(); }
  Link& collective(int peer) override { return shares_memory(peer) ? *lanes(peer)[0] : tcp_->collective(peer); }
  Link& messages(int peer) override { return shares_memory(peer) ? *lanes(peer)[1] : tcp_->messages(peer); }
  Link& answers(int peer) override { return shares_memory(peer) ? *lanes(peer)[2] : tcp_->answers(peer); }
  bool service() override { return tcp_->service(); }
  void wait(std::span<Link* const> links, std::chrono::milliseconds timeout) override;
  void wake() override;
  void close() override;
  std::string describe(int peer) const override { return tcp_->describe(peer); }
  std::vector<int> hosts() const override { return tcp_->hosts(); }
  bool oversubscribed() const override { return tcp_->oversubscribed(); }
  /// A neighbour answers sooner than a wake-up takes, even when it first has to get a CPU.
  std::chrono::microseconds patience() const override { return std::chrono::microseconds(300); }
  std::string_view name() const override {
    if (all_are_neighbours()) return "shm";
    return tcp_->is_encrypted() ? "shm+tcp+tls" : tcp_->has_bulk() ? "shm+tcp+ucx" : "shm+tcp";
  }
  Neighbours* shared_memory() override { return all_are_neighbours() ? neighbours_.get() : nullptr; }

 private:
  using Lanes = std::array<std::unique_ptr<ShmLink>, 3>;
  std::unique_ptr<ShmLink> link(int index, int lane, std::uint64_t group);
  const Lanes& lanes(int peer) const { return lanes_[static_cast<std::size_t>(peer)]; }
  bool shares_memory(int peer) const { return lanes(peer)[0] != nullptr; }
  bool all_are_neighbours() const { return neighbours_->size() == world_size(); }
  void sleep(std::span<Link* const> others, const std::vector<int>& neighbours, std::chrono::milliseconds timeout);

  std::unique_ptr<TcpTransport> tcp_;
  std::unique_ptr<Neighbours> neighbours_;
  std::vector<Lanes> lanes_;  // by rank; empty for ranks on other hosts
};

}  // namespace tutti::comm
