// The doctor's visit to a job: what one host cannot find out by itself.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/doctor/finding.h>

#include <chrono>

namespace tutti::doctor {

struct WorldReport {
  Findings findings;  // what this rank is to show: rank 0 everything, others nothing unless the ranks could not meet
  Verdict verdict = Verdict::Ok;  // of all, on all ranks
};

/// To be called by all ranks of a job of several. `own` is what check_host() found here; of each host it is told once.
/// Checks that the ranks meet, that each can connect to others (reach.h), names, clocks, latency and bandwidth. When
/// the ranks do not meet within `timeout` this is the finding. Never throws for what a check finds; throws
/// std::bad_alloc and the like.
WorldReport check_world(const comm::World& world, const Findings& own, std::chrono::milliseconds timeout);

}  // namespace tutti::doctor
