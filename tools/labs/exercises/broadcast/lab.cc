// Lab broadcast: grading.

#include <tutti/tools/labs/lab_definition.h>

#include <bit>

namespace tutti::labs {
namespace {

/// Each rank but the root gets the data once.
Allowance messages_of_a_tree(const Case& posed) {
  Allowance allowed;
  allowed.messages = posed.world_size - 1;
  allowed.bytes = allowed.messages * static_cast<double>(posed.bytes());
  return allowed;
}

/// Whoever has the data passes it on: who has it doubles in each round.
Allowance rounds_of_a_tree(const Case& posed) {
  Allowance allowed;
  allowed.rounds = std::bit_width(static_cast<unsigned>(posed.world_size - 1));
  return allowed;
}

}  // namespace

Lab broadcast_lab() {
  Lab lab;
  lab.name = "broadcast";
  lab.title = "The root's array on all ranks, by a tree";
  lab.function = "broadcast";
  lab.first_step =
      "With two ranks and root 0: let rank 0 send data to rank 1, and rank 1 receive it. Then let the root send to "
      "every "
      "other rank.";
  lab.stages = {worlds_stage("broadcast", 25),
                roots_stage(15),
                counts_stage(10),
                types_stage(5),
                order_stage(5),
                long_stage(10),
                repeats_stage(10)};
  lab.stages.push_back(cost_stage(10, 1000, messages_of_a_tree, "p - 1 messages of n bytes"));
  lab.stages.push_back(cost_stage(10, 1000, rounds_of_a_tree, "ceil(log2 p) rounds"));
  return lab;
}

}  // namespace tutti::labs
