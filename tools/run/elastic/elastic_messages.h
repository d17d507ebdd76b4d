// What the agents of an elastic job on several nodes and their coordinator say to each other while its ranks run; on
// top of nodes/messages.h, on the same two logs. Values and pure functions; decoding throws comm::Error{Protocol}.
#pragma once

#include <tutti/tools/run/elastic/rescuer.h>
#include <tutti/tools/run/nodes/messages.h>

#include <cstddef>
#include <vector>

namespace tutti::tools {

/// From an agent: what has changed about its processes, which are numbered in the order of their start, from 0.
struct RanksChanged {
  std::vector<std::size_t> places;
  Ended as_they_are;  // its round and, for each of `places`, the rank as it is now: running, frozen or ended
};

/// To an agent: a RescuePlan for its own processes.
struct RescueOrder {
  int round = 0;
  std::vector<std::size_t> lost;
  std::vector<std::size_t> frozen;
  std::vector<RescuePlan::Start> starts;
};

Words to_words(const RanksChanged& message, RankEnd::Clock::time_point now);
Words to_words(const RescueOrder& message);
RanksChanged to_ranks_changed(const Words& words, RankEnd::Clock::time_point now);
RescueOrder to_rescue_order(const Words& words);

}  // namespace tutti::tools
