#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/address_exchange.h>
#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/network_factory.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/wire/printable.h>

#include <cstdlib>
#include <numeric>
#include <utility>

namespace tutti::comm {
namespace {

[[noreturn]] void refuse_without_secret(const World& world, const std::string& group) {
  throw Error(ErrorCode::InvalidArgument,
              "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + ": group '" + group +
                  "' was to be encrypted, but there is no job secret to make a key of: set TUTTI_JOB_SECRET to the "
                  "same random text on all ranks, or start them by `tutti run`, which makes one");
}

GroupMembers everybody(const World& world, const std::string& group) {
  GroupMembers members{.name = group, .rank = world.rank, .world_ranks = {}};
  members.world_ranks.resize(static_cast<std::size_t>(world.world_size));
  std::iota(members.world_ranks.begin(), members.world_ranks.end(), 0);
  return members;
}

}  // namespace

TransportChoice transport_choice(const std::string& name) {
  const char* environment = std::getenv("TUTTI_TRANSPORT");
  const std::string chosen = name.empty() && environment ? environment : name;
  if (chosen.empty() || chosen == "auto") return TransportChoice::Auto;
  if (chosen == "tcp") return TransportChoice::Tcp;
  if (chosen == "shm") return TransportChoice::Shm;
  throw Error(ErrorCode::InvalidArgument, "transport \"" + chosen + "\"" + (name.empty() ? " (TUTTI_TRANSPORT)" : "") +
                                              " is unknown; known are auto, tcp, shm");
}

bool encryption_choice(bool option) {
  const char* environment = std::getenv("TUTTI_ENCRYPT");
  const std::string chosen = environment ? environment : "";
  if (!chosen.empty() && chosen != "0" && chosen != "1")
    throw Error(ErrorCode::InvalidArgument,
                "TUTTI_ENCRYPT=\"" + printable(chosen, 64) + "\" is neither 1 (encrypt) nor 0");
  return option || chosen == "1";
}

Meeting rendezvous(const World& world, const std::string& group, const RendezvousOptions& options) {
  const Deadline deadline = Deadline::after(options.timeout);
  const GroupMembers members = everybody(world, group);
  if (world.world_size == 1) {
    const auto factory = std::make_shared<NetworkFactory>(world, options.transport, nullptr, nullptr, Addresses{});
    return {std::make_shared<HashStore>(), factory->make(members, deadline), factory};
  }
  if (options.encrypt && world.job_secret.empty()) refuse_without_secret(world, group);
  make_room_for_group(group, members.world_ranks.size());
  const auto place = meet(world, deadline);
  std::shared_ptr<Store> store(place, place->client.get());
  const auto listener = std::make_shared<TcpListener>(
      TcpListenerOptions{.addresses = addresses_to_publish(world, {.bind_address = options.bind_address,
                                                                   .interface = options.interface,
                                                                   .towards_store = place->local_address}),
                         .job_id = world.job_id,
                         .job_secret = world.job_secret,
                         .encrypt = options.encrypt});
  const auto factory = std::make_shared<NetworkFactory>(
      world, options.transport, store, listener,
      exchange_addresses(*place, world, group, listener->endpoints(), options.settings, options.timeout, deadline));
  auto transport = factory->make(members, deadline);
  log(LogLevel::Info, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + " (" +
                          world.detected_from + ") joined group '" + group + "', listening on " + listener->endpoint() +
                          ", transport " + std::string(transport->name()));
  return {std::move(store), std::move(transport), factory};
}

}  // namespace tutti::comm
