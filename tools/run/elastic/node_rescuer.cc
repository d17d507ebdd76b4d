#include <tutti/comm/bootstrap/generation.h>
#include <tutti/tools/run/elastic/node_rescuer.h>
#include <tutti/tools/run/leftovers.h>

#include <algorithm>
#include <iterator>

namespace tutti::tools {

NodeRescuer::NodeRescuer(int round, int node, std::string control, Tell tell)
    : round_(round), node_(node), control_("TUTTI_CONTROL=" + control), tell_(std::move(tell)) {}

std::vector<std::string> NodeRescuer::environment(int local_rank) const {
  return {control_, "TUTTI_WORKER=" + comm::WorkerId{.node = node_, .slot = local_rank}.text()};
}

RanksChanged NodeRescuer::changes(std::span<const RankEnd> ranks) {
  RanksChanged changed;
  changed.round = round_;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const bool is_new = place == told_.size();
    if (is_new) told_.emplace_back();
    const RankEnd& rank = ranks[place];
    const Known known{rank.running, rank.running && is_stopped(rank.pid)};
    if (!is_new && std::exchange(told_[place], known) == known) continue;
    told_[place] = known;
    changed.places.push_back(place);
    changed.ranks.push_back(rank);
    changed.ranks.back().frozen = known.frozen;
  }
  return changed;
}

RescueOrder NodeRescuer::look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) {
  gives_up_ = tell_(changes(ranks), now);
  RescueOrder all{.round = round_, .lost = {}, .frozen = {}, .starts = {}};
  const auto add = [&](std::vector<std::size_t>& places, const std::vector<std::size_t>& more) {
    std::copy_if(more.begin(), more.end(), std::back_inserter(places),
                 [&](std::size_t place) { return place < ranks.size(); });
  };
  for (RescueOrder& order : std::exchange(orders_, {})) {
    add(all.lost, order.lost);
    add(all.frozen, order.frozen);
    for (RescueOrder::Start& start : order.starts) {
      start.environment.push_back(control_);
      all.starts.push_back(std::move(start));
    }
  }
  waits_ = false;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const RankEnd& rank = ranks[place];
    const bool dealt_with = std::find(all.lost.begin(), all.lost.end(), place) != all.lost.end();
    waits_ = waits_ || (!rank.running && rank.code != 0 && !rank.replaced && !dealt_with);
  }
  return all;
}

}  // namespace tutti::tools
