#include <tutti/tools/run/elastic/next_generation.h>

#include <algorithm>

namespace tutti::tools {
namespace {

std::vector<std::size_t> places_of(const std::vector<WorkerFate>& fates, std::initializer_list<WorkerFate> wanted) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (std::find(wanted.begin(), wanted.end(), fates[i]) != wanted.end()) places.push_back(i);
  }
  return places;
}

}  // namespace

NextGeneration next_generation(const std::vector<WorkerFate>& fates, int restarts_used, const ElasticLimits& limits,
                               std::chrono::milliseconds since) {
  using Kind = NextGeneration::Kind;
  NextGeneration next;
  next.lost = places_of(fates, {WorkerFate::Died, WorkerFate::Gone});
  const auto died = places_of(fates, {WorkerFate::Died});
  const auto gone = static_cast<int>(next.lost.size() - died.size());
  const auto left = places_of(fates, {WorkerFate::Left});
  const auto running = places_of(fates, {WorkerFate::Runs});
  const auto frozen = places_of(fates, {WorkerFate::Frozen});
  if (next.lost.empty() && left.empty()) return next;

  const bool settled = !next.lost.empty() && since >= limits.settle;
  if (!frozen.empty() && (settled || running.empty())) {
    next.kind = Kind::KillSilent;
    next.silent = frozen;
    return next;
  }
  if (next.lost.empty() && !running.empty() && since >= limits.patience) {
    next.kind = Kind::KillSilent;
    next.silent = running;
    return next;
  }
  if (!settled && !(running.empty() && frozen.empty())) return next;

  const bool finished = std::find(fates.begin(), fates.end(), WorkerFate::Finished) != fates.end();
  next.survivors = places_of(fates, {WorkerFate::Runs, WorkerFate::Left, WorkerFate::Frozen});
  next.replace = !finished && restarts_used < limits.max_restarts;
  const auto size = next.survivors.size() + (next.replace ? died.size() : 0);
  const int least = limits.min_ranks > 0 ? limits.min_ranks : static_cast<int>(fates.size()) - gone;
  const bool enough = size >= static_cast<std::size_t>(std::max(1, least));
  next.kind = enough ? Kind::Form : Kind::TooFew;
  if (finished) next.kind = next.survivors.empty() ? Kind::AllDone : Kind::Form;
  return next;
}

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
