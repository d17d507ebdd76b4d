// One rank of the jobs of fault_test.cc: forms the group, says "ready <its address>", and plays its part of a scenario.
//
//   tutti_fault_rank TIMEOUT_MS SCENARIO [ARGUMENT]
//
// Ends with status 0 when the scenario lets it, else with "failed after <ms> ms: <error>" and status 1.
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace tutti::comm;
using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::span<float> all(Floats& values) { return values; }

struct Buffers {
  explicit Buffers(const ProcessGroup& group) : gathered(one.size() * static_cast<std::size_t>(group.world_size())) {}
  Floats few = Floats(16);
  Floats one = Floats(10'000);
  Floats many = Floats(1'000'000);
  Floats gathered;
};

/// Messages in a circle, short and long ones, with asynchronous receives.
void pass_around(ProcessGroup& group, Buffers& b) {
  const int next = (group.rank() + 1) % group.world_size();
  const int previous = (group.rank() + group.world_size() - 1) % group.world_size();
  Work receive = group.irecv(buffer(all(b.gathered).first(b.one.size())), previous, 1);
  group.send(all(b.one), next, 1);
  receive.wait();
  Work send = group.isend(const_buffer(all(b.many)), next, 2);
  group.recv(all(b.many), kAnySource, 2);
  send.wait();
}

using Body = std::function<void(ProcessGroup& group, Buffers& b)>;

const std::map<std::string, Body>& operations() {
  static const std::map<std::string, Body> operations = {
      {"all_reduce", [](ProcessGroup& g, Buffers& b) { g.all_reduce(all(b.few)); }},
      {"all_reduce_large", [](ProcessGroup& g, Buffers& b) { g.all_reduce(all(b.many)); }},
      {"broadcast", [](ProcessGroup& g, Buffers& b) { g.broadcast(all(b.one), 1); }},
      {"reduce",
       [](ProcessGroup& g, Buffers& b) {
         const Buffer output = g.rank() == 1 ? buffer(all(b.one)) : Buffer{};
         g.reduce(const_buffer(all(b.one)), output, ReduceOp::Max, 1);
       }},
      {"gather",
       [](ProcessGroup& g, Buffers& b) {
         g.gather(const_buffer(all(b.one)), g.rank() == 1 ? buffer(all(b.gathered)) : Buffer{}, 1);
       }},
      {"all_gather",
       [](ProcessGroup& g, Buffers& b) { g.all_gather(const_buffer(all(b.one)), buffer(all(b.gathered))); }},
      {"scatter",
       [](ProcessGroup& g, Buffers& b) {
         const ConstBuffer input = g.rank() == 1 ? const_buffer(all(b.gathered)) : ConstBuffer{};
         g.scatter(input, buffer(all(b.one)), 1);
       }},
      {"barrier", [](ProcessGroup& g, Buffers&) { g.barrier(); }},
      {"async",
       [](ProcessGroup& g, Buffers& b) {
         Work first = g.all_reduce_async(buffer(all(b.many)));
         Work second = g.all_reduce_async(buffer(all(b.few)));
         first.wait();
         second.wait();
       }},
      {"p2p", pass_around},
  };
  return operations;
}

/// What rank 1 calls while the others call all_reduce of 10,000 floats, or broadcast from rank 0 for "root".
void disagree(const std::string& what, ProcessGroup& group, Buffers& b) {
  std::vector<std::int32_t> integers(b.one.size());
  const bool odd = group.rank() == 1;
  if (what == "root") return group.broadcast(all(b.one), odd ? 1 : 0);
  if (!odd) return group.all_reduce(all(b.one));
  if (what == "operation") return group.broadcast(all(b.one), 1);
  if (what == "count") return group.all_reduce(all(b.one).first(9'999));
  if (what == "dtype") return group.all_reduce(std::span(integers));
  group.all_reduce(all(b.one), ReduceOp::Max);
}

struct Scenario {
  std::string name;
  std::string argument;
  Clock::time_point since = Clock::now();  // when the operation in progress began

  bool names(const World& world) const { return argument == std::to_string(world.rank); }

  void play(ProcessGroup& group) {
    Buffers buffers(group);
    if (name == "exit-before-first" && argument == std::to_string(group.rank())) std::exit(0);
    if (name == "sleep-in-user-code" && argument == std::to_string(group.rank())) {
      say("sleeping");
      for (;;) ::pause();
    }
    since = Clock::now();
    if (name == "mismatch") {
      disagree(argument, group, buffers);
      group.barrier();
    } else if (name == "loop" || name == "own-store") {
      loop(group, buffers);
    } else {
      group.barrier();
    }
  }

  /// Says "beat 1", "beat 2", ... five times a second.
  void loop(ProcessGroup& group, Buffers& buffers) {
    const Body& operation = operations().at(argument);
    Clock::time_point next_beat = Clock::now();
    for (int beat = 1;;) {
      since = Clock::now();
      operation(group, buffers);
      if (Clock::now() < next_beat) continue;
      say("beat " + std::to_string(beat++));
      next_beat = Clock::now() + std::chrono::milliseconds(200);
    }
  }
};

/// The world again, but with a store that rank 0's process serves and takes down with it.
std::unique_ptr<TcpStoreServer> serve_own_store(World& world) {
  const auto soon = [] { return Deadline::after(std::chrono::seconds(20)); };
  TcpStoreOptions options{.host = world.master_addr, .port = world.master_port};
  options.job_id = world.job_id;
  options.job_secret = world.job_secret;
  TcpStore launchers(options, soon());
  std::unique_ptr<TcpStoreServer> server;
  if (world.rank == 0) {
    server = std::make_unique<TcpStoreServer>(
        TcpStoreServerOptions{.job_id = world.job_id, .job_secret = world.job_secret, .world_size = world.world_size});
    launchers.set("own-store", std::to_string(server->port()), soon());
  }
  world.master_port = static_cast<std::uint16_t>(std::stoi(launchers.get("own-store", soon())));
  return server;
}

/// Is known to the store, and gone before the group has formed.
[[noreturn]] void exit_while_forming(const World& world) {
  TcpStoreOptions options{.host = world.master_addr, .port = world.master_port};
  options.job_id = world.job_id;
  options.job_secret = world.job_secret;
  options.rank = world.rank;
  options.world_size = world.world_size;
  TcpStore store(options, Deadline::after(std::chrono::seconds(20)));
  store.set("seen", "", Deadline::after(std::chrono::seconds(20)));
  std::exit(0);
}

void run(Scenario& scenario, std::chrono::milliseconds timeout) {
  World world = World::detect();
  if (scenario.name == "exit-before-connect" && scenario.names(world)) std::exit(0);
  if (scenario.name == "exit-while-forming" && scenario.names(world)) exit_while_forming(world);
  if (scenario.name == "wrong-secret" && scenario.names(world)) world.job_secret = "guessed";
  std::unique_ptr<TcpStoreServer> server;
  if (scenario.name == "own-store") server = serve_own_store(world);
  scenario.since = Clock::now();
  const auto group = ProcessGroup::connect(world, {.timeout = timeout});
  const std::string key = "world/address/" + std::to_string(world.rank);
  say("ready " + group->store()->get(key, Deadline::after(timeout)));
  scenario.play(*group);
  group->shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Scenario scenario{.name = argv[2], .argument = argc > 3 ? argv[3] : ""};
  try {
    run(scenario, std::chrono::milliseconds(std::stoi(argv[1])));
  } catch (const Error& error) {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - scenario.since);
    say("failed after " + std::to_string(took.count()) + " ms: " + error.what());
    return 1;
  }
  return 0;
}
