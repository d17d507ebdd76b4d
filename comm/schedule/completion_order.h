// CompletionOrder: in what order the steps of all ranks can complete; the half of the checker that looks at messages.
//
// Thread-safety: pure function.
#pragma once

#include <tutti/comm/schedule/schedule.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

/// A local step completes, or a message passes: then `peer` and `peer_step` are the receiving end.
struct Event {
  int rank = 0;
  std::uint32_t step = 0;
  int peer = -1;
  std::uint32_t peer_step = 0;
};

struct CompletionOrder {
  std::vector<Event> events;
  std::string fault;  // empty: events holds every step of every rank
};

/// Pairs the k-th send from a to b with the k-th receive at b from a, and completes step after step. A message passes
/// only when both its ends are ready (a transport that buffers nothing): what ends here ends on every transport. Peers,
/// slices and `after` must be within bounds. A step that can never complete is explained by what it waits for.
CompletionOrder completion_order(std::span<const Schedule> schedules);

}  // namespace tutti::comm
