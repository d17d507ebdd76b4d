// Plan: a Schedule prepared for execution: which step waits for which, counted once and used many times.
//
// Immutable after construction; any thread may read it.
#pragma once

#include <tutti/comm/schedule/schedule.h>

#include <cstdint>
#include <vector>

namespace tutti::comm {

struct PlanStep {
  Step step;
  std::uint32_t ordinal = 0;               // sends and receives: how many came before it to/from the same peer
  std::uint32_t waits_for = 0;             // steps that must finish (or, for send order, be posted) first
  std::vector<std::uint32_t> on_complete;  // steps to release when this one is complete
  std::vector<std::uint32_t> on_start;     // steps to release when this one has been posted
};

struct Plan {
  explicit Plan(Schedule schedule);

  std::string_view algorithm;
  std::vector<PlanStep> steps;
  std::size_t scratch_count = 0;
};

}  // namespace tutti::comm
