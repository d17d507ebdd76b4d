#include <tutti/comm/algorithms/table.h>
#include <tutti/comm/base/error.h>

#include <set>
#include <string>

namespace tutti::comm::algorithms {
namespace {

/// So many times as long are segments that have no gaps to fill: each has costs of its own.
constexpr std::size_t kLongSegments = 4;

void require_known(std::string_view name) {
  std::string known;
  std::set<std::string_view> listed;
  for (const Entry& entry : table()) {
    if (entry.name == name) return;
    if (listed.insert(entry.name).second) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error(ErrorCode::InvalidArgument,
              "unknown algorithm \"" + std::string(name) + "\"; known are " + known + ", or \"\" to choose by size");
}

/// What brackets from the left; not in the table, because nobody takes these for their speed.
Algorithm left_fold(OpKind op, double bytes) {
  constexpr double kLong = 16 * 1024;  // what many ranks add sooner than one: between two, over TCP (algorithms.md)
  switch (op) {
    case OpKind::AllReduce:
      return bytes <= kLong ? star_all_reduce : fixed_all_reduce;
    case OpKind::Reduce:
      return bytes <= kLong ? fixed_reduce_by_one : fixed_reduce;
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterV:
      return direct_reduce_scatter;
    default:
      return nullptr;
  }
}

}  // namespace

Schedule select(const Problem& problem, std::size_t element_bytes, std::string_view name, const Tuning* tuning) {
  if (problem.left_fold && !problem.in_order &&
      problem.world_size <= 2) {  // 0 + 1 has one bracketing: the order decides
    Problem in_order = problem;
    in_order.in_order = true;
    return select(in_order, element_bytes, name, tuning);
  }
  if (!problem.hosts.empty() && problem.hosts.size() != static_cast<std::size_t>(problem.world_size)) {
    throw Error(ErrorCode::InvalidArgument, "a world of " + std::to_string(problem.world_size) +
                                                " ranks needs as many hosts, found " +
                                                std::to_string(problem.hosts.size()));
  }
  if (!name.empty()) require_known(name);
  if (problem.left_fold && problem.world_size > 2 && is_reduction(problem.op))
    return left_fold(problem.op, bytes_of(problem, element_bytes))(problem);
  const Entry* entry = name.empty() ? nullptr : find_entry(problem.op, name);
  if (entry != nullptr && problem.in_order && !entry->keeps_order) entry = nullptr;
  if (entry == nullptr) entry = find_entry(problem.op, choose(problem, element_bytes, tuning));
  Problem in_its_segments = problem;
  in_its_segments.segment_count = segment_count(problem, entry->name);
  return entry->build(in_its_segments);
}

std::size_t segment_count(const Problem& problem, std::string_view algorithm) {
  const Entry* entry = find_entry(problem.op, algorithm);
  return problem.segment_count * (entry != nullptr && entry->has_no_gaps ? kLongSegments : 1);
}

std::vector<std::string_view> names_for(OpKind op) {
  std::vector<std::string_view> names;
  for (const Entry& entry : table()) {
    if (entry.op == with_schedule(op)) names.push_back(entry.name);
  }
  return names;
}

bool rotates(const Problem& problem, std::string_view name) {
  const Entry* entry = find_entry(problem.op, name);
  if (entry == nullptr || !entry->rotates) return false;
  // All-reduce alone cuts `count` into chunks; everything else moves blocks of `count`.
  return problem.op != OpKind::AllReduce || problem.count % static_cast<std::size_t>(problem.world_size) == 0;
}

}  // namespace tutti::comm::algorithms
