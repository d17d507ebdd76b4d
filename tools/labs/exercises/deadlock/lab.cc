// Lab deadlock: grading. The skeleton works until messages are long.

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs {
namespace {

Allowance one_message_each(const Case& posed) {
  Allowance allowed;
  allowed.messages = posed.world_size;
  allowed.bytes = allowed.messages * static_cast<double>(posed.bytes());
  return allowed;
}

Allowance all_at_once(const Case&) {
  Allowance allowed;
  allowed.rounds = 1;
  return allowed;
}

}  // namespace

Lab deadlock_lab() {
  Lab lab;
  lab.name = "deadlock";
  lab.title = "Find out why a program hangs that has passed its tests, and repair it";
  lab.function = "shift";
  lab.first_step = "The skeleton works for short messages. Read which rank waits for which when they are long.";
  lab.stages = {worlds_stage("shift", 20), counts_stage(10), types_stage(5),
                order_stage(10),           long_stage(30),   repeats_stage(5)};
  lab.stages.push_back(cost_stage(5, 1000, one_message_each, "one message of n bytes from each rank"));
  lab.stages.push_back(cost_stage(15, 1000, all_at_once, "one round: all messages at once"));
  return lab;
}

}  // namespace tutti::labs
