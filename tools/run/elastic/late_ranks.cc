#include <tutti/tools/run/elastic/late_ranks.h>

#include <algorithm>

namespace tutti::tools {

LateRanks late_ranks(const std::vector<Attendance>& members, int generation) {
  const auto has_finished = [&](const Attendance& member) { return !member.running && member.entered < generation; };
  const auto is_new = [&](const Attendance& member) { return generation > 0 && member.since == generation; };
  const auto may_finish = [&](const Attendance& member) { return member.running && !is_new(member); };
  const auto finished = std::find_if(members.begin(), members.end(), has_finished);
  if (finished == members.end() || std::any_of(members.begin(), members.end(), may_finish)) return {};
  LateRanks result{.late = {}, .finished = static_cast<std::size_t>(finished - members.begin())};
  for (std::size_t place = 0; place < members.size(); ++place) {
    if (members[place].running && is_new(members[place])) result.late.push_back(place);
  }
  return result;
}

}  // namespace tutti::tools
