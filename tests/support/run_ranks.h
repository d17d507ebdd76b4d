// run_ranks: N ranks as N threads of the test, over each of the transports, under a watchdog.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace tutti::test {

/// Mixed: shared memory within pairs of ranks, TCP between them. Tls and MixedTls: the same as Tcp and Mixed,
/// encrypted. FarShm: as Shm, as if no two ranks shared a cache. Ucx: as Tcp, long payloads by UCX over TCP.
enum class Net { Inproc, Tcp, Shm, Mixed, Tls, MixedTls, FarShm, Ucx };

/// Those of `nets` that can be had here: without UCX not Ucx, which is said.
std::vector<Net> available(std::vector<Net> nets);

/// "Inproc", "Tcp", ...
std::string name(Net net);

/// For GoogleTest, which would print the bytes.
inline void PrintTo(Net net, std::ostream* out) { *out << name(net); }

struct RunRanksOptions {
  Net net = Net::Inproc;
  std::vector<int> hosts{};  // Tcp, Tls: rank -> host that it claims to be on; empty: all on one
  comm::ProcessGroupOptions group{.timeout = std::chrono::seconds(20)};
  std::chrono::seconds watchdog{60};
};

using RankBody = std::function<void(comm::ProcessGroup& group)>;

/// Runs `body` on every rank. Throws std::runtime_error with the texts of all ranks that failed.
void run_ranks(int world_size, const RankBody& body, const RunRanksOptions& options = {});

inline void run_ranks(Net net, int world_size, const RankBody& body) { run_ranks(world_size, body, {.net = net}); }

/// The same, for tests of failures: what each rank ended with; empty for success.
std::vector<std::optional<comm::Error>> run_ranks_to_failure(int world_size, const RankBody& body,
                                                             const RunRanksOptions& options = {});
inline std::vector<std::optional<comm::Error>> run_ranks_to_failure(Net net, int world_size, const RankBody& body) {
  return run_ranks_to_failure(world_size, body, {.net = net});
}

/// Runs body(rank) in a thread for each rank, which makes its own group or none; what each ended with. `doing` is what
/// the watchdog tells of a rank that hangs.
std::vector<std::optional<comm::Error>> run_threads_to_failure(int world_size, const std::function<void(int)>& body,
                                                               const std::string& doing = "running",
                                                               std::chrono::seconds limit = std::chrono::seconds(60));

/// Transports of one world over `net`.
std::vector<std::unique_ptr<comm::Transport>> make_transports(Net net, int world_size,
                                                              const std::string& group = "world",
                                                              const std::vector<int>& hosts = {});

}  // namespace tutti::test
