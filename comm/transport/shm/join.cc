#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/transport/shm/join.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

namespace tutti::comm {
namespace {

constexpr char kNoSegment[] = "none";  // in place of the segment's address: the rank that was to make it could not

std::string inode_of(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 ? std::to_string(status.st_ino) : "?";
}

/// Words of the segment's address: pid, descriptor, nonce.
std::string to_text(const HostSegment::Address& address) {
  return std::to_string(address.pid) + " " + std::to_string(address.descriptor) + " " + std::to_string(address.nonce);
}

HostSegment::Address parse(const std::string& text) {
  HostSegment::Address address;
  std::istringstream in(text);
  if (!(in >> address.pid >> address.descriptor >> address.nonce))
    throw Error(ErrorCode::Protocol, "\"" + text + "\" does not say where the shared memory of this host is");
  return address;
}

void tell_of_tcp(int rank, const std::string& why) {
  log(LogLevel::Warn, "rank " + std::to_string(rank) + ": the ranks of this host use TCP among themselves: " + why);
}

/// The memory that the first of `ranks` to come has made: this rank if it can, which publishes it at `key`. Null, with
/// `failure`, if that one could not. Throws PeerLost if it has gone, System and Protocol if what it has made cannot be
/// mapped.
std::unique_ptr<Neighbours> share_memory(Store& store, const std::string& key, int rank, const std::vector<int>& ranks,
                                         Deadline deadline, std::string& failure) {
  const int size = static_cast<int>(ranks.size());
  std::unique_ptr<Neighbours> made;
  std::string ours = kNoSegment, why = "the first of them could not make the shared memory";
  try {
    HostSegment segment = HostSegment::create(size);
    const std::string where = to_text(segment.address());
    made = std::make_unique<Neighbours>(std::move(segment), ranks, rank);
    ours = where;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::System) throw;
    why = error.what();
  }
  const std::string first = store.compare_set(key, "", ours, deadline);
  if (first == kNoSegment) {
    failure = why;
    return nullptr;
  }
  if (first == ours) return made;
  const bool could_make = std::exchange(made, nullptr) != nullptr;
  std::optional<HostSegment> opened;
  try {
    opened = HostSegment::open(parse(first), size);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::System || !could_make) throw;
    throw Error(ErrorCode::PeerLost, "the rank that came first, as " + key + " says, has left again: " + error.what());
  }
  return std::make_unique<Neighbours>(std::move(*opened), ranks, rank);
}

}  // namespace

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot + ":" + std::to_string(::geteuid()) + ":" + inode_of("/proc/self/ns/pid") + ":" +
         inode_of("/proc/self/ns/net");
}

std::unique_ptr<Neighbours> join_neighbours(Store& store, const std::string& group, int rank,
                                            const std::vector<std::string>& identities, Deadline deadline,
                                            const std::function<void(const std::string& key)>& await) {
  std::vector<int> ranks;
  for (std::size_t other = 0; other < identities.size(); ++other)
    if (identities[other] == identities[static_cast<std::size_t>(rank)]) ranks.push_back(static_cast<int>(other));
  const int size = static_cast<int>(ranks.size());
  if (size < 2) return nullptr;
  const std::string prefix = group + "/shm/" + std::to_string(ranks.front()) + "/";
  std::unique_ptr<Neighbours> neighbours;
  std::string failure;
  try {
    neighbours = share_memory(store, prefix + "first", rank, ranks, deadline, failure);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Timeout) throw;
    failure = error.what();
  }
  // A failure counts more than all successes together.
  const std::int64_t mapped = store.add(prefix + "mapped", failure.empty() ? 1 : std::int64_t{size} + 1, deadline);
  const std::int64_t failures = mapped / (size + 1);
  if (failures * (size + 1) + size - failures == mapped)
    store.set(prefix + "verdict", failures == 0 ? "shm" : "tcp", deadline);
  await(prefix + "verdict");
  if (store.get(prefix + "verdict", deadline) == "shm") return neighbours;
  tell_of_tcp(rank, failure.empty() ? "one of them could not map the shared memory" : failure);
  return nullptr;
}

std::unique_ptr<Neighbours> join_known_neighbours(Store& store, const std::string& group, int rank,
                                                  const std::vector<int>& ranks, Deadline deadline) {
  if (ranks.size() < 2) return nullptr;
  try {
    std::string failure;
    const std::string key = group + "/shm/" + std::to_string(ranks.front()) + "/first";
    auto neighbours = share_memory(store, key, rank, ranks, deadline, failure);
    if (!neighbours) tell_of_tcp(rank, failure);
    return neighbours;
  } catch (const Error& error) {
    throw Error(error.code(), "rank " + std::to_string(rank) + ": " + error.what());
  }
}

}  // namespace tutti::comm
