#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/elastic/remote_rescuer.h>
#include <tutti/tools/run/process_state.h>

#include <algorithm>

namespace tutti::tools {

RemoteRescuer::RemoteRescuer(const RoundPlan& plan, int node, const std::string& control_host, Post post)
    : round_(plan.round),
      node_(node),
      control_(comm::host_and_port(control_host, plan.control_port)),
      post_(std::move(post)) {}

std::vector<std::string> RemoteRescuer::environment(int local_rank) const {
  return {"TUTTI_CONTROL=" + control_, "TUTTI_WORKER=" + comm::WorkerId{.node = node_, .slot = local_rank}.text()};
}

void RemoteRescuer::tell_changes(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) {
  RanksChanged changed;
  changed.as_they_are.round = round_;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const bool is_new = place == told_.size();
    if (is_new) told_.emplace_back();
    const RankEnd& rank = ranks[place];
    const Known known{rank.running, rank.running && is_stopped(rank.pid)};
    if (!is_new && std::exchange(told_[place], known) == known) continue;
    told_[place] = known;
    changed.places.push_back(place);
    changed.as_they_are.ranks.push_back(rank);
    changed.as_they_are.ranks.back().frozen = known.frozen;
  }
  if (!changed.places.empty()) post_(to_words(changed, now));
}

RescuePlan RemoteRescuer::look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) {
  tell_changes(ranks, now);
  RescuePlan plan;
  for (; !orders_.empty(); orders_.pop_front()) {
    RescueOrder& order = orders_.front();
    plan.kind = RescuePlan::Kind::GoOn;
    for (const std::size_t place : order.lost) {
      if (place < ranks.size()) plan.lost.push_back(place);
    }
    for (const std::size_t place : order.frozen) {
      if (place < ranks.size()) plan.frozen.push_back(place);
    }
    for (RescuePlan::Start& start : order.starts) {
      start.node = node_;
      start.environment.push_back("TUTTI_CONTROL=" + control_);
      plan.starts.push_back(std::move(start));
    }
  }
  waits_ = false;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const RankEnd& rank = ranks[place];
    const bool dealt_with = std::find(plan.lost.begin(), plan.lost.end(), place) != plan.lost.end();
    waits_ = waits_ || (!rank.running && rank.code != 0 && !rank.replaced && !dealt_with);
  }
  return plan;
}

}  // namespace tutti::tools
