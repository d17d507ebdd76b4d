// One rank of the jobs of fault_test.cc: forms the group, says "ready <its address>", and plays its part of a scenario.
//
//   tutti_fault_rank TIMEOUT_MS SCENARIO [ARGUMENT]...
//
// Ends with status 0 when the scenario lets it, else with "failed after <ms> ms: <error>" and status 1; with status 3
// if descriptors are open that were not when it began. Before that it says "failure at <ns>", and before it leaves the
// others "leaving at <ns>", by the clock that all processes of a host share (CLOCK_MONOTONIC).
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fault_operations.h"

namespace {

using namespace tutti::comm;
using Clock = std::chrono::steady_clock;
using test::Buffers;
using test::fault_operations;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// None where there is UCX, which keeps its own for a while after a group's end.
std::size_t open_descriptors() {
  std::size_t count = 0;
  const char* transport = std::getenv("TUTTI_TRANSPORT");
  if (transport != nullptr && std::string(transport) == "ucx") return count;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::string now() { return std::to_string(Clock::now().time_since_epoch().count()); }

[[noreturn]] void leave() {
  say("leaving at " + now());
  std::exit(0);
}

struct Scenario {
  std::string name;
  std::string argument;
  std::vector<std::string> rounds;         // "freeze <operation>" or "differ <count> <what>" each; for "rounds"
  std::string prefix;                      // of what the loop says
  Clock::time_point since = Clock::now();  // when the operation in progress began

  bool names(const World& world) const { return argument == std::to_string(world.rank); }

  void play(ProcessGroup& group) {
    Buffers buffers(group);
    if (name == "exit-before-first" && argument == std::to_string(group.rank())) leave();
    if (name == "sleep-in-user-code" && argument == std::to_string(group.rank())) {
      say("sleeping");
      for (;;) ::pause();
    }
    since = Clock::now();
    if (name == "halves") {
      const auto half = group.split(group.rank() % 2);
      Buffers of_half(*half);
      loop(*half, fault_operations().at(argument), of_half);
    } else if (name == "loop" || name == "own-store") {
      loop(group, fault_operations().at(argument), buffers);
    } else if (name == "exit-in-the-middle") {
      for (int i = 0; i < 10; ++i) fault_operations().at("all_reduce_large")(group, buffers);
      if (argument == std::to_string(group.rank())) leave();
      loop(group, fault_operations().at("all_reduce_large"), buffers);
    } else {
      group.barrier();
    }
  }

  /// Says "beat 1", "beat 2", ... five times a second.
  [[noreturn]] void loop(ProcessGroup& group, const test::Operation& operation, Buffers& buffers) {
    Clock::time_point next_beat = Clock::now();
    for (int beat = 1;;) {
      since = Clock::now();
      operation(group, buffers);
      if (Clock::now() < next_beat) continue;
      say(prefix + "beat " + std::to_string(beat++));
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
  leave();
}

/// With TUTTI_FAULT_HOSTS=N each rank from N on becomes the process of a user of its own, which shares no memory with
/// other ranks, as if it ran on a host of its own. Status 4 if this is not allowed here. Before there is a second
/// thread.
void move_to_another_host() {
  const char* hosts = std::getenv("TUTTI_FAULT_HOSTS");
  const char* rank = std::getenv("RANK");
  if (!hosts || std::atoi(rank) < std::atoi(hosts)) return;
  const uid_t user = ::geteuid();
  if (::unshare(CLONE_NEWUSER) != 0) std::exit(4);
  std::ofstream("/proc/self/uid_map") << rank << " " << user << " 1" << std::flush;
}

std::string published_address(ProcessGroup& group, const std::string& name) {
  const std::string key = name + "/address/" + std::to_string(group.rank());
  return group.store()->get(key, Deadline::after(std::chrono::seconds(20)));
}

/// A group for each round, which fails; says how. All ranks survive, and meet in an outer group before the next one.
void play_rounds(Scenario& scenario, const World& world, std::chrono::milliseconds timeout) {
  const auto outer = ProcessGroup::connect(world, {.name = "rounds"});
  for (std::size_t number = 1; number <= scenario.rounds.size(); ++number) {
    const std::string& round = scenario.rounds[number - 1];
    const std::string what = round.substr(round.find(' ') + 1), name = "round " + std::to_string(number);
    outer->barrier();
    const std::size_t before = open_descriptors();
    std::string end = "succeeded";
    try {
      const auto group = ProcessGroup::connect(world, {.name = name, .timeout = timeout});
      say(name + " ready " + published_address(*group, name));
      Buffers buffers(*group);
      scenario.prefix = name + " ";
      if (round.rfind("freeze ", 0) == 0) scenario.loop(*group, fault_operations().at(what), buffers);
      say(name + " calling at " + now());
      test::disagree(what.substr(what.find(' ') + 1), std::stoul(what), *group, buffers);
      group->barrier();
    } catch (const Error& error) {
      say(name + " failure at " + now());
      end = error.what();
    }
    say(name + " left " + std::to_string(open_descriptors() - before) + " descriptors open and ended: " + end + "\n");
  }
  outer->shutdown();
}

/// What UCX could change in the process that loads it: actions of signals, variables, code of functions that manage
/// memory (it can write jumps into them).
std::vector<std::string> footprint() {
  std::vector<std::string> all;
  for (int number = 1; number < 32; ++number) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    all.push_back("signal " + std::to_string(number) + ": " +
                  std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler)));
  }
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  for (const char* name : {"mmap", "munmap", "mremap", "madvise", "shmat", "shmdt", "brk", "sbrk", "malloc", "free"}) {
    const auto* code = static_cast<const char*>(::dlsym(RTLD_DEFAULT, name));
    all.push_back(std::string(name) + std::to_string(reinterpret_cast<std::uintptr_t>(code)) + std::string(code, 16));
  }
  return all;
}

/// Whether a payload that this process sends itself arrives.
bool ucx_transfers(BulkEngine& engine) {
  const auto channel = engine.open(engine.address(), [] {});
  const std::string payload(300'000, 'u');
  std::string come;
  channel->expect(channel->tag(), payload.size());
  for (std::size_t left = 0; left < payload.size() || come.size() < payload.size();) {
    if (!channel->failure().empty()) return false;
    engine.progress();
    left += channel->send(payload.data() + left, payload.size() - left);
    const auto there = channel->readable();
    come.append(reinterpret_cast<const char*>(there.data()), there.size());
    if (!there.empty()) channel->consume(there.size());
  }
  return come == payload;
}

/// Loads UCX; status 5 and a line for each change it made, 6 where a child that ends stops what its parent does.
int use_ucx() {
  const auto before = footprint();
  open_ucx("lo", {"127.0.0.1"});
  const auto after = footprint();
  for (std::size_t i = 0; i < before.size() && after.size() == before.size(); ++i)
    if (before[i] != after[i]) say("was " + before[i] + ", is " + after[i]);
  if (before != after) return 5;
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);  // with all destructors
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0 && ucx_transfers(*open_ucx("lo", {"127.0.0.1"})) ? 0 : 6;
}

void run(Scenario& scenario, std::chrono::milliseconds timeout) {
  World world = World::detect();
  if (scenario.name == "rounds") return play_rounds(scenario, world, timeout);
  if (scenario.name == "exit-before-connect" && scenario.names(world)) std::exit(0);
  if (scenario.name == "exit-while-forming" && scenario.names(world)) exit_while_forming(world);
  if (scenario.name == "wrong-secret" && scenario.names(world)) world.job_secret = "guessed";
  std::unique_ptr<TcpStoreServer> server;
  if (scenario.name == "own-store") server = serve_own_store(world);
  scenario.since = Clock::now();
  const auto group = ProcessGroup::connect(world, {.timeout = timeout});
  say("ready " + published_address(*group, "world") + " via " + group->transport_name());
  scenario.play(*group);
  group->shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  move_to_another_host();
  Scenario scenario{
      .name = argv[2], .argument = argc > 3 ? argv[3] : "", .rounds = {argv + 3, argv + argc}, .prefix = ""};
  const std::size_t before = open_descriptors();
  try {
    if (scenario.name == "use-ucx") return use_ucx();
    run(scenario, std::chrono::milliseconds(std::stoi(argv[1])));
  } catch (const Error& error) {
    say("failure at " + now());
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - scenario.since);
    say("failed after " + std::to_string(took.count()) + " ms: " + error.what());
    return open_descriptors() == before ? 1 : 3;
  }
  return open_descriptors() == before ? 0 : 3;
}
