// One rank of the worlds of large_world_test.cc and tuning_process_test.cc: forms the group, says "formed <ms>", passes
// a barrier and all_reduces of one and of COUNT numbers, says "took <algorithm> <algorithm>" of these, and "connections
// <n>": its TCP connections with other ranks. With COUNT above one it then leaves, and forms the same group again.
//
//   tutti_world_rank COUNT
//
// Ends with status 0 when all results were right, else with "failed: <why>" and status 1.
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace tutti::comm;
using Clock = std::chrono::steady_clock;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// The port that a descriptor is connected to over TCP; 0 for everything else.
int remote_port(int descriptor) {
  sockaddr_storage remote{};
  socklen_t length = sizeof remote;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&remote), &length) != 0) return 0;
  if (remote.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(remote).sin_port);
  if (remote.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(remote).sin6_port);
  return 0;
}

int connections_with_ranks(const World& world) {
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) throw Error(ErrorCode::System, "cannot list /proc/self/fd");
  int count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    const int port = remote_port(std::atoi(entry->d_name));
    if (port != 0 && port != world.master_port) ++count;
  }
  ::closedir(folder);
  return count;
}

void check_all_reduce(ProcessGroup& group, std::size_t count) {
  std::vector<std::int64_t> values(count, group.rank() + 1);
  group.all_reduce(std::span(values));
  const std::int64_t expected = std::int64_t{group.world_size()} * (group.world_size() + 1) / 2;
  const auto wrong = std::count_if(values.begin(), values.end(), [=](std::int64_t v) { return v != expected; });
  if (wrong == 0) return;
  throw Error(ErrorCode::Protocol, std::to_string(wrong) + " of " + std::to_string(count) + " sums are wrong");
}

void run(std::size_t count) {
  const World world = World::detect();
  const auto start = Clock::now();
  const auto group = ProcessGroup::connect(world, {.timeout = std::chrono::seconds(60)});
  const auto formed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  say("formed " + std::to_string(formed.count()));
  group->barrier();
  check_all_reduce(*group, 1);
  if (count > 1) check_all_reduce(*group, count);
  const auto taken = [&](std::size_t many) { return group->algorithm_for(OpKind::AllReduce, many, DType::Int64); };
  say("took " + taken(1) + " " + taken(count));
  group->barrier();
  say("connections " + std::to_string(connections_with_ranks(world)));
  group->shutdown();
}

/// The same ranks may form a group of the same name once more: the first one's addresses are not taken for theirs.
void form_again() {
  const auto group = ProcessGroup::connect(World::detect(), {.timeout = std::chrono::seconds(60)});
  check_all_reduce(*group, 1);
  group->shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const auto count = static_cast<std::size_t>(std::atoll(argv[1]));
    run(count);
    if (count > 1) form_again();
  } catch (const Error& error) {
    say(std::string("failed: ") + error.what());
    return 1;
  }
  return 0;
}
