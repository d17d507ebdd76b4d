// The store server under crowds: a barrier of many clients, and operations per second of server time.
// Run: build/release/bin/store_scale [CLIENTS [PROCESSES [SECONDS]]]; where SECONDS is 0 the barrier alone.
//
// The server is alone in this process, so that the processor time of the process is the server's; clients live in
// PROCESSES others, forked before the server exists. "per cpu s" is answered requests by seconds of processor time
// (user and system) that the server's process took meanwhile; "per s" is by the clock, with the clients on the same
// processors.
#include <signal.h>
#include <sys/wait.h>
#include <tutti/bench/store_swarm.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace tutti::comm;
using namespace tutti::bench;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(60);

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TcpStoreOptions client_options(std::uint16_t port) {
  return {.host = "127.0.0.1", .port = port, .job_id = "scale", .job_secret = "scale"};
}

/// A forked process with clients, and a pipe in each direction.
struct Worker {
  pid_t pid = -1;
  int to = -1;
  int from = -1;
};

template <typename T>
void put(int fd, const T& value) {
  if (::write(fd, &value, sizeof value) != sizeof value) std::exit(3);
}

template <typename T>
T take(int fd) {
  T value{};
  if (::read(fd, &value, sizeof value) != sizeof value) std::exit(4);
  return value;
}

/// What a worker does when its clients are connected and all are told to go. What it counted is summed up.
using Work = std::function<std::uint64_t(StoreSwarm&)>;

class Crowd {
 public:
  Crowd(int processes, int clients, const Work& work) {
    for (int i = 0; i < processes; ++i) {
      const int share = clients / processes + (i < clients % processes ? 1 : 0);
      workers_.push_back(start(share, work));
    }
  }
  ~Crowd() {
    for (const Worker& worker : workers_) {
      ::close(worker.to);
      ::close(worker.from);
      ::kill(worker.pid, SIGKILL);
      ::waitpid(worker.pid, nullptr, 0);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /// Returns when all clients are connected.
  void connect(std::uint16_t port) const {
    for (const Worker& worker : workers_) put(worker.to, port);
    for (const Worker& worker : workers_) take<char>(worker.from);
  }

  std::uint64_t work() const {
    for (const Worker& worker : workers_) put(worker.to, 'g');
    std::uint64_t total = 0;
    for (const Worker& worker : workers_) total += take<std::uint64_t>(worker.from);
    return total;
  }

 private:
  static Worker start(int clients, const Work& work) {
    int down[2], up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0) throw_errno("pipe", errno);
    const pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork", errno);
    if (pid == 0) {
      ::close(down[1]);
      ::close(up[0]);
      serve(down[0], up[1], clients, work);
    }
    ::close(down[0]);
    ::close(up[1]);
    return {pid, down[1], up[0]};
  }

  [[noreturn]] static void serve(int in, int out, int clients, const Work& work) {
    try {
      raise_descriptor_limit(static_cast<std::size_t>(clients) + 1100, "store_scale's clients");
      StoreSwarm swarm(client_options(take<std::uint16_t>(in)), clients, Deadline::after(kPatience));
      put(out, 'r');
      take<char>(in);
      put(out, work(swarm));
      take<char>(in);  // until we are killed
    } catch (const std::exception& error) {
      std::fprintf(stderr, "store_scale: %s\n", error.what());
    }
    ::_exit(1);
  }

  std::vector<Worker> workers_;
};

std::unique_ptr<TcpStoreServer> serve_job() {
  return std::make_unique<TcpStoreServer>(TcpStoreServerOptions{.job_id = "scale", .job_secret = "scale"});
}

void measure_barrier(int clients, int processes) {
  const Crowd crowd(processes, clients, [clients](StoreSwarm& swarm) {
    swarm.barrier("barrier", clients, Deadline::after(kPatience));
    return std::uint64_t{1};
  });
  const auto server = serve_job();
  const auto start = Clock::now();
  crowd.connect(server->port());
  const double connected = seconds_since(start);
  const auto all_here = Clock::now();
  crowd.work();
  std::printf(
      "barrier of %d clients in %d processes: connected and authenticated in %.2f s, passed in %.2f s (server: %.2f s "
      "cpu)\n",
      clients, processes, connected, seconds_since(all_here), cpu_seconds());
}

void measure_rate(int clients, int processes, int depth, std::chrono::milliseconds duration) {
  const Crowd crowd(processes, clients, [=](StoreSwarm& swarm) { return swarm.hammer(depth, duration); });
  const auto server = serve_job();
  crowd.connect(server->port());
  const double cpu = cpu_seconds();
  const auto start = Clock::now();
  const auto answered = static_cast<double>(crowd.work());
  const double wall = seconds_since(start);
  const double used = cpu_seconds() - cpu;
  std::printf(
      "%7d clients, %3d requests each on their way: %9.0f per s, %9.0f per cpu s (%.0f requests, %.2f s, %.2f s cpu)\n",
      clients, depth, answered / wall, answered / used, answered, wall, used);
}

}  // namespace

int main(int argc, char** argv) {
  const int clients = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const int processes = argc > 2 ? std::atoi(argv[2]) : 4;
  const std::chrono::milliseconds duration(argc > 3 ? std::atoi(argv[3]) * 1000 : 2000);
  ::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    raise_descriptor_limit(static_cast<std::size_t>(clients) + 64, "store_scale's server");
    measure_barrier(clients, processes);
    if (duration.count() == 0) return 0;
    for (const int depth : {1, 8, 64})
      for (const int crowd : {1, 16, 256}) measure_rate(crowd, std::min(crowd, 2), depth, duration);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_scale: %s\n", error.what());
    return 1;
  }
  return 0;
}
