// Sub-groups of a ProcessGroup: which ranks they have, in which order, and under which name. Only split's own exchange
// of colors and keys travels: addresses are known, the listener and the store are shared, and names follow from what
// all members know.
#include <tutti/comm/base/log.h>
#include <tutti/comm/process_group_impl.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>

#include <set>

namespace tutti::comm {
namespace {

constexpr std::size_t kRanksInName = 16;

/// "0.2.5", or, if it is long, its beginning and its hash.
std::string list_name(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ".") + std::to_string(rank);
  if (ranks.size() <= kRanksInName) return text;
  return joined(text.substr(0, 24), "...", ranks.size(), "-", hex(identity_hash(text)));
}

}  // namespace

std::unique_ptr<ProcessGroup::Impl> ProcessGroup::Impl::split(int color, int key) {
  const std::vector<std::int64_t> mine = {color, key};
  std::vector<std::int64_t> everybody(2 * static_cast<std::size_t>(world_size()));
  run(prepare({.op = OpKind::Split, .input = std::span(mine), .output = std::span(everybody)}));
  const int number = ++splits_;
  if (color < 0) return nullptr;
  const auto at = [&](int rank, std::size_t i) { return everybody[2 * static_cast<std::size_t>(rank) + i]; };
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size(); ++rank)
    if (at(rank, 0) == color) ranks.push_back(rank);
  std::ranges::stable_sort(ranks, {}, [&](int rank) { return at(rank, 1); });
  return form(options_.name + "/split" + std::to_string(number) + "/" + std::to_string(color), ranks);
}

std::unique_ptr<ProcessGroup::Impl> ProcessGroup::Impl::subgroup(std::span<const int> ranks) {
  check_usable();
  const std::vector<int> list(ranks.begin(), ranks.end());
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::InvalidArgument, monitor_.prefix(), "subgroup(", list_name(list), "): ", why);
  };
  std::set<int> known;
  for (const int rank : list) {
    if (rank < 0 || rank >= world_size()) refuse(joined("there is no rank ", rank, " in a group of ", world_size()));
    if (!known.insert(rank).second) refuse(joined("rank ", rank, " is there twice"));
  }
  if (!known.contains(rank())) refuse("this rank is not among them; only the group's members form it");
  const int number = ++subgroups_[list];
  return form(options_.name + "/ranks-" + list_name(list) + "#" + std::to_string(number), list);
}

std::unique_ptr<ProcessGroup::Impl> ProcessGroup::Impl::form(const std::string& name, const std::vector<int>& ranks) {
  if (!factory_)
    throw Error(ErrorCode::InvalidArgument, monitor_.prefix(), "group '", name,
                "' cannot be formed: this group was made from a transport, without "
                "the factory that makes those of sub-groups");
  GroupMembers members{.name = name, .rank = 0, .world_ranks = {}};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank()) members.rank = static_cast<int>(i);
    members.world_ranks.push_back(world_ranks_[static_cast<std::size_t>(ranks[i])]);
  }
  ProcessGroupOptions options = options_;
  options.name = name;
  make_room_for_group(name, ranks.size());
  auto transport = factory_->make(members, Deadline::after(options_.timeout));
  log(LogLevel::Info, monitor_.prefix(), "joined group '", name, "' as rank ", members.rank, "/", ranks.size(),
      ", transport ", transport->name());
  return std::make_unique<Impl>(store_, std::move(transport), std::move(options), factory_, trace_log_,
                                members.world_ranks);
}

}  // namespace tutti::comm
