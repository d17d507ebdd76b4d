// ShmTransport: shared memory between the ranks of this host, TCP to all others; a world may mix.
//
// Which pairs share memory is decided when the group forms (join.h) and is the same on both sides. A thread that sleeps
// in wait() notices the death of a neighbour through its pidfd. Contract and thread-safety: transport.h.
#pragma once

#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/shm/shm_link.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <functional>
#include <memory>
#include <vector>

namespace tutti::comm {

class ShmTransport final : public Transport {
 public:
  /// `tcp` reaches the ranks that are no neighbours. `group` is the identity_hash of the group's name.
  ShmTransport(std::unique_ptr<TcpTransport> tcp, std::unique_ptr<Neighbours> neighbours, std::uint64_t group);
  ~ShmTransport() override;

  int rank() const override { return tcp_->rank(); }
  int world_size() const override { return tcp_->world_size(); }
  Link& collective(int peer) override;
  Link& messages(int peer) override;
  Link& answers(int peer) override;
  bool service() override { return tcp_->service(); }
  void wait(std::span<Link* const> links, std::chrono::milliseconds timeout) override;
  void wake() override;
  void close() override;
  std::string describe(int peer) const override { return tcp_->describe(peer); }
  std::vector<int> hosts() const override { return tcp_->hosts(); }
  bool oversubscribed() const override { return tcp_->oversubscribed(); }
  std::chrono::microseconds patience() const override;
  std::string_view name() const override {
    return all_are_neighbours() ? "shm" : tcp_->is_encrypted() ? "shm+tcp+tls" : "shm+tcp";
  }
  Neighbours* shared_memory() override { return all_are_neighbours() ? neighbours_.get() : nullptr; }

 private:
  struct Lanes {
    std::unique_ptr<ShmLink> collective;
    std::unique_ptr<ShmLink> messages;
    std::unique_ptr<ShmLink> answers;
  };
  std::unique_ptr<ShmLink> link(int index, int lane, std::uint64_t group);
  const Lanes& lanes(int peer) const { return lanes_[static_cast<std::size_t>(peer)]; }
  bool all_are_neighbours() const { return neighbours_->size() == world_size(); }
  void sleep(std::span<Link* const> others, const std::vector<int>& neighbours, std::chrono::milliseconds timeout);

  std::unique_ptr<TcpTransport> tcp_;
  std::unique_ptr<Neighbours> neighbours_;
  std::vector<Lanes> lanes_;  // by rank; empty for ranks on other hosts
};

}  // namespace tutti::comm
