// Lab reduce: grading.

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs {

Lab reduce_lab() {
  Lab lab;
  lab.name = "reduce";
  lab.title = "All ranks' elements, combined at the root";
  lab.function = "reduce";
  lab.first_step =
      "With two ranks and root 0: let rank 1 send its input to rank 0, let rank 0 copy its own input to output, "
      "receive "
      "into a vector of its own, and combine the two with op.";
  lab.stages = {
      worlds_stage("reduce", 25), roots_stage(15), counts_stage(10), types_stage(10), order_stage(10), long_stage(10),
      repeats_stage(10)};
  lab.stages.push_back(cost_stage(
      10, 1000,
      [](const Case& posed) {
        Allowance allowed;
        allowed.messages = posed.world_size - 1;
        allowed.bytes = static_cast<double>(posed.world_size - 1) * static_cast<double>(posed.bytes());
        return allowed;
      },
      "p - 1 messages of n bytes"));
  return lab;
}

}  // namespace tutti::labs
