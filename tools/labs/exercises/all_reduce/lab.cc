// Lab all_reduce: grading. Reduce and broadcast by trees are right and earn all but the last points.

#include <tutti/tools/labs/lab_definition.h>

#include <bit>

namespace tutti::labs {
namespace {

unsigned power_of_two_below(const Case& posed) { return std::bit_floor(static_cast<unsigned>(posed.world_size)); }

/// Recursive doubling's: q log2(q) for q ranks, and two for each rank beyond them. Trees take 2 (p - 1), never more.
Allowance messages_of_doubling(const Case& posed) {
  const unsigned q = power_of_two_below(posed);
  const unsigned p = static_cast<unsigned>(posed.world_size);
  Allowance allowed;
  allowed.messages = q * static_cast<unsigned>(std::bit_width(q) - 1) + 2 * (p - q);
  allowed.bytes = allowed.messages * static_cast<double>(posed.bytes());
  return allowed;
}

/// In, out, and messages that have to wait at the door of a rank that serves a left-over one.
Allowance rounds_of_doubling(const Case& posed) {
  const unsigned q = power_of_two_below(posed);
  Allowance allowed;
  allowed.rounds = std::bit_width(q) - 1 + (q < static_cast<unsigned>(posed.world_size) ? 4 : 0);
  return allowed;
}

}  // namespace

Lab all_reduce_lab() {
  Lab lab;
  lab.name = "all_reduce";
  lab.title = "All ranks' elements, combined, on all ranks, by recursive doubling";
  lab.function = "all_reduce";
  lab.first_step =
      "With two ranks: let each send its data to the other and receive the other's into a vector of its own "
      "(sendrecv), "
      "then combine the two with op.";
  lab.stages = {worlds_stage("all_reduce", 25),
                counts_stage(10),
                types_stage(10),
                order_stage(10),
                long_stage(15),
                repeats_stage(10)};
  lab.stages.push_back(cost_stage(10, 1000, messages_of_doubling, "q log2(q) + 2 (p - q) messages of n bytes"));
  lab.stages.push_back(cost_stage(10, 1000, rounds_of_doubling, "log2(q) rounds, 4 more if p > q"));
  return lab;
}

}  // namespace tutti::labs
