#include <tutti/comm/base/processors.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/transport/shm/shm_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/tests/support/in_threads.h>
#include <tutti/tests/support/inproc_transport.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <stdexcept>

namespace tutti::test {

namespace {

/// How the ranks of a test's world are spread over what they take for hosts, which is where they share memory.
struct Hosts {
  std::vector<int> of_rank;  // empty: all on one
  bool share_memory = false;
  bool encrypt = false;
  bool far = false;  // as if no two ranks shared a cache
  bool ucx = false;

  std::string name(int rank) const {
    return of_rank.empty() ? "localhost" : "host" + std::to_string(of_rank.at(static_cast<std::size_t>(rank)));
  }
};

Hosts hosts_of(Net net, int world_size, const std::vector<int>& hosts) {
  if (net == Net::Tcp || net == Net::Tls || net == Net::Ucx)
    return {hosts, false, net == Net::Tls, /*far=*/false, net == Net::Ucx};
  const bool mixed = net == Net::Mixed || net == Net::MixedTls;
  Hosts shared{{}, true, net == Net::MixedTls, net == Net::FarShm};
  for (int rank = 0; rank < world_size && mixed; ++rank) shared.of_rank.push_back(rank / 2);
  return shared;
}

/// Makes the transports of one rank's groups in a loopback world, as the rendezvous does between processes.
class LoopbackFactory final : public comm::TransportFactory {
 public:
  LoopbackFactory(int world_size, Hosts hosts, std::shared_ptr<comm::Store> store)
      : world_size_(world_size),
        hosts_(std::move(hosts)),
        store_(std::move(store)),
        listener_(std::make_shared<comm::TcpListener>(comm::listener_options(options()))) {}

  std::string endpoint() const { return listener_->endpoint(); }
  std::string bulk_address() const { return bulk_ ? bulk_->address() : ""; }
  void set_addresses(std::vector<comm::PeerAddress> addresses) { addresses_ = std::move(addresses); }

  std::unique_ptr<comm::Transport> make(const comm::GroupMembers& members, comm::Deadline deadline) override {
    auto tcp = make_tcp(members);
    if (!hosts_.share_memory) return tcp;
    auto neighbours =
        members.is_whole_world(world_size_) ? meet_neighbours(members, deadline) : known_neighbours(members, deadline);
    if (!neighbours) return tcp;
    return std::make_unique<comm::ShmTransport>(std::move(tcp), std::move(neighbours),
                                                comm::identity_hash(members.name));
  }

  std::unique_ptr<comm::Neighbours> meet_neighbours(const comm::GroupMembers& members, comm::Deadline deadline) {
    std::vector<std::string> identities;
    for (const int rank : members.world_ranks) identities.push_back(hosts_.name(rank));
    const auto await = [&](const std::string& key) { store_->wait(std::vector<std::string>{key}, deadline); };
    auto neighbours = comm::join_neighbours(*store_, members.name, members.rank, identities, deadline, await);
    for (int index = 0; hosts_.far && index < neighbours->size(); ++index)
      neighbours->segment().state(index).last_cache = comm::kSeveralCaches - comm::kUnknownCache;
    return neighbours;
  }

  std::unique_ptr<comm::Neighbours> known_neighbours(const comm::GroupMembers& members, comm::Deadline deadline) {
    std::vector<int> ranks;
    const std::string here = hosts_.name(members.world_ranks[static_cast<std::size_t>(members.rank)]);
    for (std::size_t rank = 0; rank < members.world_ranks.size(); ++rank)
      if (hosts_.name(members.world_ranks[rank]) == here) ranks.push_back(static_cast<int>(rank));
    return comm::join_known_neighbours(*store_, members.name, members.rank, ranks, deadline);
  }

  std::unique_ptr<comm::TcpTransport> make_tcp(const comm::GroupMembers& members) {
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
            .encrypt = hosts_.encrypt,
            .oversubscribed = world_size_ > comm::allowed_processors(),
            .bulk = bulk_,
            .bulk_from = 4096};  // short, so that many go that way
  }

  const int world_size_;
  const Hosts hosts_;
  const std::shared_ptr<comm::BulkEngine> bulk_ = hosts_.ucx ? comm::open_ucx("lo", {"127.0.0.1"}) : nullptr;
  const std::shared_ptr<comm::Store> store_;
  const std::shared_ptr<comm::TcpListener> listener_;
  std::vector<comm::PeerAddress> addresses_;
};

std::vector<std::shared_ptr<comm::TransportFactory>> make_loopback_factories(int world_size, const Hosts& hosts) {
  const auto store = std::make_shared<comm::HashStore>();
  std::vector<std::shared_ptr<LoopbackFactory>> factories;
  std::vector<comm::PeerAddress> addresses;
  for (int rank = 0; rank < world_size; ++rank) {
    factories.push_back(std::make_shared<LoopbackFactory>(world_size, hosts, store));
    addresses.push_back({factories.back()->endpoint(), hosts.name(rank), std::to_string(::getpid())});
    addresses.back().bulk = factories.back()->bulk_address();
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

std::string name(Net net) {
  constexpr const char* kNames[] = {"Inproc", "Tcp", "Shm", "Mixed", "Tls", "MixedTls", "FarShm", "Ucx"};
  return kNames[static_cast<int>(net)];
}

std::vector<Net> available(std::vector<Net> nets) {
  static const std::string refusal = comm::ucx_refusal();
  if (!refusal.empty() && std::erase(nets, Net::Ucx) > 0) std::printf("Ucx is left out: %s\n", refusal.c_str());
  return nets;
}

std::vector<std::shared_ptr<comm::TransportFactory>> make_factories(Net net, int world_size,
                                                                    const std::vector<int>& hosts) {
  if (net == Net::Inproc) return make_inproc_factories(world_size);
  return make_loopback_factories(world_size, hosts_of(net, world_size, hosts));
}

std::vector<std::unique_ptr<comm::Transport>> make_transports(Net net, int world_size, const std::string& group,
                                                              const std::vector<int>& hosts) {
  const auto factories = make_factories(net, world_size, hosts);
  std::vector<std::unique_ptr<comm::Transport>> transports(static_cast<std::size_t>(world_size));
  in_threads(world_size, [&](int rank) {  // ranks that share memory wait for each other
    const auto index = static_cast<std::size_t>(rank);
    transports[index] = world_transport(*factories[index], group, rank, world_size);
  });
  return transports;
}

std::vector<std::optional<comm::Error>> run_threads_to_failure(int world_size, const std::function<void(int)>& body,
                                                               const std::string& doing, std::chrono::seconds limit) {
  Watchdog watchdog(limit);
  std::vector<std::optional<comm::Error>> outcomes(static_cast<std::size_t>(world_size));
  in_threads(world_size, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    watchdog.doing(rank, doing);
    try {
      body(rank);
    } catch (const comm::Error& error) {
      outcomes[index] = error;
    } catch (const std::exception& error) {
      outcomes[index] = comm::Error(comm::ErrorCode::System, error.what());
    }
    watchdog.doing(rank, "done");
  });
  return outcomes;
}

std::vector<std::optional<comm::Error>> run_ranks_to_failure(int world_size, const RankBody& body,
                                                             const RunRanksOptions& options) {
  const auto factories = make_factories(options.net, world_size, options.hosts);
  auto store = std::make_shared<comm::HashStore>();
  const auto be_rank = [&](int rank) {
    const auto& factory = factories[static_cast<std::size_t>(rank)];
    comm::ProcessGroup group(store, world_transport(*factory, options.group.name, rank, world_size), options.group,
                             factory);
    body(group);
  };
  return run_threads_to_failure(world_size, be_rank, "running", options.watchdog);
}

void run_ranks(int world_size, const RankBody& body, const RunRanksOptions& options) {
  std::string texts;
  const auto outcomes = run_ranks_to_failure(world_size, body, options);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    if (outcomes[rank]) texts += "\n  rank " + std::to_string(rank) + ": " + outcomes[rank]->what();
  if (!texts.empty()) throw std::runtime_error("run_ranks: some ranks failed:" + texts);
}

}  // namespace tutti::test
