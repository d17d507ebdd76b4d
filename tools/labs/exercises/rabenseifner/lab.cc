// Lab rabenseifner: grading.

#include <tutti/tools/labs/lab_definition.h>

#include <bit>

namespace tutti::labs {
namespace {

constexpr std::size_t kCount = 1024;  // halves go round in all worlds up to 8

unsigned power_of_two_below(const Case& posed) { return std::bit_floor(static_cast<unsigned>(posed.world_size)); }
bool has_left_over_ranks(const Case& posed) {
  return power_of_two_below(posed) < static_cast<unsigned>(posed.world_size);
}

Allowance bytes_of_halving(const Case& posed) {
  const double q = power_of_two_below(posed);
  Allowance allowed;
  allowed.rank_bytes = static_cast<double>(posed.bytes()) * (2 * (q - 1) / q + (has_left_over_ranks(posed) ? 1 : 0));
  return allowed;
}

/// In, out, and messages that have to wait at the door of a rank that serves a left-over one.
Allowance rounds_of_halving(const Case& posed) {
  Allowance allowed;
  allowed.rounds = 2 * (std::bit_width(power_of_two_below(posed)) - 1) + (has_left_over_ranks(posed) ? 4 : 0);
  return allowed;
}

}  // namespace

Lab rabenseifner_lab() {
  Lab lab;
  lab.name = "rabenseifner";
  lab.title = "All_reduce with the ring's bytes in a tree's rounds, by halving and doubling";
  lab.function = "all_reduce";
  lab.first_step =
      "With two ranks: write halving_rounds() (one round: rank 0 keeps the lower half, rank 1 the upper), let each "
      "send "
      "the half it gives up and receive into the memory for the other's (sendrecv), and combine. Then the way back.";
  lab.stages = {worlds_stage("all_reduce", 25),
                counts_stage(15),
                types_stage(5),
                order_stage(5),
                long_stage(15),
                repeats_stage(5)};
  for (Case& posed : lab.stages[0].cases) posed.count = 48;  // halves go round here, too
  lab.stages.push_back(
      cost_stage(15, kCount, bytes_of_halving, "each rank sends and receives 2 n (q - 1) / q bytes, n more if p > q"));
  lab.stages.push_back(cost_stage(15, kCount, rounds_of_halving, "2 log2(q) rounds, 4 more if p > q"));
  return lab;
}

}  // namespace tutti::labs
