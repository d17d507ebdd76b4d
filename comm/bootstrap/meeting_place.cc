#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/tcp_store.h>

#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kLastToGo(5000);

/// A process can serve a port only once, however many of its groups meet there, at once or one after the other: hence
/// state of the process.
struct Served {
  std::mutex mutex;
  std::map<std::tuple<std::string, std::uint16_t, std::string, std::string, int>, std::weak_ptr<TcpStoreServer>> jobs;
  std::set<std::shared_ptr<TcpStoreServer>> kept;  // for ranks that wait there for this process's next group
};

Served& served() {
  static auto& all = *new Served;  // never destroyed: groups may outlive main()
  return all;
}

std::shared_ptr<TcpStoreServer> serve(const World& world) {
  const TcpStoreServerOptions options{.bind_address = store_bind_address(world),
                                      .port = world.master_port,
                                      .job_id = world.job_id,
                                      .job_secret = world.job_secret,
                                      .world_size = world.world_size};
  const std::lock_guard lock(served().mutex);
  auto& known =
      served().jobs[{options.bind_address, options.port, options.job_id, options.job_secret, options.world_size}];
  auto server = known.lock();
  if (!server) known = server = std::make_shared<TcpStoreServer>(options);
  served().kept.erase(server);
  return server;
}

/// Ends a server with its last group, when the other ranks have left it.
void leave(std::shared_ptr<TcpStoreServer> server, const std::string& where) {
  std::unique_lock lock(served().mutex);
  if (server.use_count() > 1) return;
  const Deadline deadline = Deadline::after(kLastToGo);
  if (server->close_when_unused(deadline)) return;
  if (deadline.expired())
    log(LogLevel::Warn, where, " ends, though some ranks are still connected to it");
  else
    served().kept.insert(std::move(server));
}

std::shared_ptr<MeetingPlace> meet_at_server(const World& world, Deadline deadline) {
  auto place = std::make_shared<MeetingPlace>();
  if (world.rank == 0 && !world.launcher_owns_store) place->server = serve(world);
  auto client = std::make_unique<TcpStore>(TcpStoreOptions{.host = world.master_addr,
                                                           .port = world.master_port,
                                                           .job_id = world.job_id,
                                                           .job_secret = world.job_secret,
                                                           .rank = world.rank,
                                                           .world_size = world.world_size},
                                           deadline);
  place->local_address = client->local_address();
  place->client = std::move(client);
  place->where = "the store " + world.master_addr + ":" + std::to_string(world.master_port);
  return place;
}

std::shared_ptr<MeetingPlace> meet_in_file(const World& world, Deadline deadline) {
  auto place = std::make_shared<MeetingPlace>();
  auto client = std::make_unique<FileStore>(
      FileStoreOptions{
          .path = world.store_file, .job_id = world.job_id, .rank = world.rank, .world_size = world.world_size},
      deadline);
  place->where = "the store file " + client->path();
  place->client = std::move(client);
  return place;
}

}  // namespace

MeetingPlace::~MeetingPlace() {
  client.reset();
  if (server && withdraw) withdraw();
  if (server) leave(std::move(server), where);
}

std::shared_ptr<MeetingPlace> meet(const World& world, Deadline deadline) {
  if (!world.store_file.empty()) return meet_in_file(world, deadline);
  if (world.invitation.empty() && world.meeting_file.empty()) return meet_at_server(world, deadline);
  auto place = meet_at_published_server(world, deadline);
  log(LogLevel::Info, rank_text(world), " (", world.detected_from, ") has reached ", place->where);
  return place;
}

}  // namespace tutti::comm
