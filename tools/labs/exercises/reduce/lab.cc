// Lab reduce: grading.

#include <tutti/tools/labs/lab_definition.h>

#include <bit>

namespace tutti::labs {
namespace {

/// Each rank but the root sends once what it has gathered.
Allowance messages_of_a_tree(const Case& posed) {
  Allowance allowed;
  allowed.messages = posed.world_size - 1;
  allowed.bytes = allowed.messages * static_cast<double>(posed.bytes());
  return allowed;
}

Allowance rounds_of_a_tree(const Case& posed) {
  Allowance allowed;
  allowed.rounds = std::bit_width(static_cast<unsigned>(posed.world_size - 1));
  return allowed;
}

}  // namespace

Lab reduce_lab() {
  Lab lab;
  lab.name = "reduce";
  lab.title = "All ranks' elements, combined at the root, by a tree";
  lab.function = "reduce";
  lab.first_step =
      "With two ranks and root 0: let rank 1 send its input to rank 0, let rank 0 copy its own input to output, "
      "receive "
      "into a vector of its own, and combine the two with op.";
  lab.stages = {worlds_stage("reduce", 25),
                roots_stage(15),
                counts_stage(10),
                types_stage(10),
                order_stage(10),
                long_stage(5),
                repeats_stage(5)};
  lab.stages.push_back(cost_stage(10, 1000, messages_of_a_tree, "p - 1 messages of n bytes"));
  lab.stages.push_back(cost_stage(10, 1000, rounds_of_a_tree, "ceil(log2 p) rounds"));
  return lab;
}

}  // namespace tutti::labs
