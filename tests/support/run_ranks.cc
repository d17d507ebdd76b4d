#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/inproc/inproc_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>

#include <stdexcept>
#include <thread>

namespace tutti::test {

namespace {

/// Makes the transports of one rank's groups in a loopback world, as the rendezvous does between processes.
class TcpFactory final : public comm::TransportFactory {
 public:
  explicit TcpFactory(int world_size)
      : world_size_(world_size), listener_(std::make_shared<comm::TcpListener>(comm::listener_options(options()))) {}

  std::string endpoint() const { return listener_->endpoint(); }
  void set_addresses(std::vector<comm::PeerAddress> addresses) { addresses_ = std::move(addresses); }

  std::unique_ptr<comm::Transport> make(const comm::GroupMembers& members, comm::Deadline) override {
    comm::TcpTransportOptions own = options();
    own.rank = members.rank;
    own.world_size = static_cast<int>(members.world_ranks.size());
    own.group = members.name;
    auto transport = std::make_unique<comm::TcpTransport>(own, listener_);
    std::vector<comm::PeerAddress> peers;
    for (const int rank : members.world_ranks) {
      peers.push_back(addresses_.at(static_cast<std::size_t>(rank)));
      if (!members.is_whole_world(world_size_)) peers.back().world_rank = rank;
    }
    transport->set_peers(std::move(peers));
    return transport;
  }

 private:
  comm::TcpTransportOptions options() const {
    return {.job_secret = "a secret of tests",
            .oversubscribed = world_size_ > static_cast<int>(std::thread::hardware_concurrency())};
  }

  const int world_size_;
  const std::shared_ptr<comm::TcpListener> listener_;
  std::vector<comm::PeerAddress> addresses_;
};

std::vector<std::shared_ptr<comm::TransportFactory>> make_tcp_factories(int world_size) {
  std::vector<std::shared_ptr<TcpFactory>> factories;
  std::vector<comm::PeerAddress> addresses;
  for (int rank = 0; rank < world_size; ++rank) {
    factories.push_back(std::make_shared<TcpFactory>(world_size));
    addresses.push_back({factories.back()->endpoint(), "localhost", "thread " + std::to_string(rank)});
  }
  for (auto& factory : factories) factory->set_addresses(addresses);
  return {factories.begin(), factories.end()};
}

std::unique_ptr<comm::Transport> world_transport(comm::TransportFactory& factory, const std::string& group, int rank,
                                                 int world_size) {
  comm::GroupMembers members{.name = group, .rank = rank, .world_ranks = {}};
  for (int i = 0; i < world_size; ++i) members.world_ranks.push_back(i);
  return factory.make(members, comm::Deadline::after(std::chrono::seconds(10)));
}

}  // namespace

std::vector<std::unique_ptr<comm::Transport>> make_tcp_transports(int world_size, const std::string& group) {
  const auto factories = make_tcp_factories(world_size);
  std::vector<std::unique_ptr<comm::Transport>> transports;
  for (int rank = 0; rank < world_size; ++rank)
    transports.push_back(world_transport(*factories[static_cast<std::size_t>(rank)], group, rank, world_size));
  return transports;
}

std::vector<std::optional<comm::Error>> run_ranks_to_failure(int world_size, const RankBody& body,
                                                             const RunRanksOptions& options) {
  Watchdog watchdog(options.watchdog);
  const auto factories =
      options.net == Net::Tcp ? make_tcp_factories(world_size) : comm::make_inproc_factories(world_size);
  std::vector<std::unique_ptr<comm::Transport>> transports;
  for (int rank = 0; rank < world_size; ++rank)
    transports.push_back(
        world_transport(*factories[static_cast<std::size_t>(rank)], options.group.name, rank, world_size));
  auto store = std::make_shared<comm::HashStore>();
  std::vector<std::optional<comm::Error>> outcomes(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      watchdog.doing(rank, "running");
      try {
        comm::ProcessGroup group(store, std::move(transports[index]), options.group, factories[index]);
        body(group);
      } catch (const comm::Error& error) {
        outcomes[index] = error;
      } catch (const std::exception& error) {
        outcomes[index] = comm::Error(comm::ErrorCode::System, error.what());
      }
      watchdog.doing(rank, "done");
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void run_ranks(int world_size, const RankBody& body, const RunRanksOptions& options) {
  std::string texts;
  const auto outcomes = run_ranks_to_failure(world_size, body, options);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    if (outcomes[rank]) texts += "\n  rank " + std::to_string(rank) + ": " + outcomes[rank]->what();
  if (!texts.empty()) throw std::runtime_error("run_ranks: some ranks failed:" + texts);
}

}  // namespace tutti::test
