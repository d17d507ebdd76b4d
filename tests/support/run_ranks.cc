#include <tutti/comm/bootstrap/handshake.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/inproc/inproc_transport.h>
#include <tutti/comm/transport/shm/shm_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace tutti::test {

namespace {

std::vector<std::unique_ptr<comm::TcpTransport>> connected_tcp(int world_size, const std::string& group,
                                                               const std::vector<int>& hosts) {
  std::vector<std::unique_ptr<comm::TcpTransport>> transports;
  std::vector<comm::PeerAddress> addresses;
  for (int rank = 0; rank < world_size; ++rank) {
    transports.push_back(std::make_unique<comm::TcpTransport>(comm::TcpTransportOptions{
        .rank = rank,
        .world_size = world_size,
        .group = group,
        .job_secret = "a secret of tests",
        .oversubscribed = world_size > static_cast<int>(std::thread::hardware_concurrency())}));
    const std::string host =
        hosts.empty() ? "localhost" : "host" + std::to_string(hosts.at(static_cast<std::size_t>(rank)));
    addresses.push_back({transports.back()->endpoint(), host, "thread " + std::to_string(rank)});
  }
  for (auto& transport : transports) transport->set_peers(addresses);
  return transports;
}

}  // namespace

std::string name(Net net) {
  constexpr const char* kNames[] = {"Inproc", "Tcp", "Shm", "Mixed"};
  return kNames[static_cast<int>(net)];
}

std::vector<std::unique_ptr<comm::Transport>> make_tcp_transports(int world_size, const std::string& group,
                                                                  const std::vector<int>& hosts) {
  auto transports = connected_tcp(world_size, group, hosts);
  return {std::make_move_iterator(transports.begin()), std::make_move_iterator(transports.end())};
}

std::vector<std::unique_ptr<comm::Transport>> make_shm_transports(int world_size, int ranks_per_host,
                                                                  const std::string& group) {
  std::vector<std::unique_ptr<comm::Transport>> result;
  std::vector<int> hosts;
  for (int rank = 0; rank < world_size; ++rank) hosts.push_back(rank / ranks_per_host);
  auto tcp = connected_tcp(world_size, group, hosts);
  for (int first = 0; first < world_size; first += ranks_per_host) {
    std::vector<int> ranks(static_cast<std::size_t>(std::min(ranks_per_host, world_size - first)));
    std::iota(ranks.begin(), ranks.end(), first);
    const int size = static_cast<int>(ranks.size());
    comm::HostSegment segment = comm::HostSegment::create(size);
    const auto address = segment.address();
    for (int rank : ranks) {
      auto mapped = rank == first ? std::move(segment) : comm::HostSegment::open(address, size);
      result.push_back(std::make_unique<comm::ShmTransport>(
          std::move(tcp[static_cast<std::size_t>(rank)]),
          std::make_unique<comm::Neighbours>(std::move(mapped), ranks, rank), comm::identity_hash(group)));
    }
  }
  return result;
}

std::vector<std::unique_ptr<comm::Transport>> make_transports(Net net, int world_size, const std::string& group,
                                                              const std::vector<int>& hosts) {
  switch (net) {
    case Net::Tcp:
      return make_tcp_transports(world_size, group, hosts);
    case Net::Shm:
      return make_shm_transports(world_size, world_size, group);
    case Net::Mixed:
      return make_shm_transports(world_size, 2, group);
    case Net::Inproc:
      break;
  }
  return comm::make_inproc_transports(world_size);
}

std::vector<std::optional<comm::Error>> run_ranks_to_failure(int world_size, const RankBody& body,
                                                             const RunRanksOptions& options) {
  Watchdog watchdog(options.watchdog);
  auto transports = make_transports(options.net, world_size, options.group.name, options.hosts);
  auto store = std::make_shared<comm::HashStore>();
  std::vector<std::optional<comm::Error>> outcomes(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      watchdog.doing(rank, "running");
      try {
        comm::ProcessGroup group(store, std::move(transports[index]), options.group);
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
