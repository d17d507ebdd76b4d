#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/file_members.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/job_secret.h>

#include <charconv>
#include <sstream>

namespace tutti::comm {
namespace {

std::string joined_key(int rank) { return "tutti/file/joined/" + std::to_string(rank); }
std::string here_key(int rank) { return "tutti/file/here/" + std::to_string(rank); }
std::string lost_key(int rank) { return kLostKeyPrefix + std::to_string(rank); }

/// The ranks whose loss a key tells of: one for "tutti/lost/<rank>", all for "tutti/lost", none for others.
std::vector<int> ranks_of_lost_key(std::string_view key, int world_size) {
  constexpr std::string_view kPrefix = kLostKeyPrefix;
  std::vector<int> ranks;
  if (key == kLostRanksKey) {
    for (int rank = 0; rank < world_size; ++rank) ranks.push_back(rank);
  } else if (key.starts_with(kPrefix)) {
    int rank = 0;
    const auto [end, status] = std::from_chars(key.data() + kPrefix.size(), key.data() + key.size(), rank);
    if (status == std::errc() && end == key.data() + key.size() && rank >= 0) ranks.push_back(rank);
  }
  return ranks;
}

/// Tells this process from all others: hosts and pids come again, in containers even together.
const std::string& process_token() {
  static const auto& token = *new std::string(new_job_secret().substr(0, 16));
  return token;
}

std::string own_identity() { return host_name() + " " + std::to_string(::getpid()) + " " + process_token(); }

std::pair<std::string, std::uint64_t> host_and_pid(const std::string& identity) {
  std::istringstream in(identity);
  std::pair<std::string, std::uint64_t> process;
  in >> process.first >> process.second;
  return process;
}

std::string lost_text(const KeyMap& map, int rank) {
  const auto [host, pid] = host_and_pid(*map.find(joined_key(rank)));
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ", host " + host +
         ") is gone: its process has ended without a goodbye";
}

}  // namespace

bool FileMembers::join(Deadline deadline) {
  const std::string key = joined_key(options_.rank);
  return values_.write("join", key, deadline, [&](MapChange& change) {
    if (values_.file().removed()) return false;
    const std::string self = own_identity();
    if (const std::string* other = change.map().find(key); other != nullptr && *other != self) throw_stale(*other);
    values_.file().hold_presence(options_.rank);  // before anybody can see that we are here
    change.set(key, self);
    change.add(here_key(options_.rank), 1);
    return true;
  });
}

void FileMembers::throw_stale(const std::string& other) const {
  const auto [host, pid] = host_and_pid(other);
  throw Error(ErrorCode::Unauthorized,
              "the store file " + values_.file().path() + " is stale: rank " + std::to_string(options_.rank) +
                  " has joined it already, as " + process_text(pid, host) +
                  (values_.file().present(options_.rank) ? " (it still has the file open)" : "") + "; this is " +
                  process_text(static_cast<std::uint64_t>(::getpid()), host_name()) + ". An earlier run of job \"" +
                  options_.job_id +
                  "\" has left it: remove it. (TUTTI_JOB_ID, another for every run, tells runs apart)");
}

void FileMembers::leave(Deadline deadline) {
  values_.write("leave", joined_key(options_.rank), deadline, [&](MapChange& change) {
    const std::int64_t here = change.add(here_key(options_.rank), -1);
    if (everybody_has_left(change.map())) values_.file().remove();
    return here;
  });
}

bool FileMembers::everybody_has_left(const KeyMap& map) const {
  for (int rank = 0; rank < options_.world_size; ++rank) {
    const std::string* here = map.find(here_key(rank));
    if (here == nullptr || *here != "0") return false;
  }
  return options_.world_size > 0;
}

void FileMembers::mark_lost(std::span<const std::string> keys, Deadline deadline) {
  std::vector<int> asked;
  for (const std::string& key : keys) {
    const auto ranks = ranks_of_lost_key(key, options_.world_size);
    asked.insert(asked.end(), ranks.begin(), ranks.end());
  }
  const auto nobody_new = [&](const KeyMap& map) { return newly_lost(map, asked).empty(); };
  if (asked.empty() || values_.read("look for", keys[0], deadline, nobody_new)) return;
  values_.write("mark", keys[0], deadline, [&](MapChange& change) {
    const std::vector<int> lost = newly_lost(change.map(), asked);
    for (const int rank : lost) change.set(lost_key(rank), lost_text(change.map(), rank));
    if (!lost.empty()) change.set(kLostRanksKey, lost_ranks(change.map()));
    return 0;
  });
}

std::vector<int> FileMembers::newly_lost(const KeyMap& map, const std::vector<int>& asked) const {
  std::vector<int> lost;
  for (const int rank : asked) {
    const std::string* here = map.find(here_key(rank));
    const bool may_be_lost = rank != options_.rank && here != nullptr && *here != "0";
    if (!may_be_lost || map.find(lost_key(rank)) != nullptr) continue;
    if (!values_.file().present(rank)) lost.push_back(rank);
  }
  return lost;
}

std::string FileMembers::lost_ranks(const KeyMap& map) const {
  std::string ranks;
  for (int rank = 0; rank < options_.world_size; ++rank) {
    if (map.find(lost_key(rank)) == nullptr) continue;
    ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
  }
  return ranks;
}

}  // namespace tutti::comm
