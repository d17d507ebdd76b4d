// Lab barrier: grading. Late ranks are in the stage of delays; a call that takes another's message is found by
// repeating.

#include <tutti/tools/labs/lab_definition.h>

#include <bit>

namespace tutti::labs {
namespace {

int rounds_of(const Case& posed) { return std::bit_width(static_cast<unsigned>(posed.world_size - 1)); }

Allowance messages_of_dissemination(const Case& posed) {
  Allowance allowed;
  allowed.messages = posed.world_size * rounds_of(posed);
  return allowed;
}

Allowance rounds_of_dissemination(const Case& posed) {
  Allowance allowed;
  allowed.rounds = rounds_of(posed);
  return allowed;
}

}  // namespace

Lab barrier_lab() {
  Lab lab;
  lab.name = "barrier";
  lab.title = "Nobody leaves before everybody has come";
  lab.function = "barrier";
  lab.first_step =
      "With two ranks: each sends the other an empty message, and receives one. Neither can leave before the other has "
      "come.";
  lab.stages = {worlds_stage("barrier", 30), order_stage(15), long_stage(15), repeats_stage(20)};
  lab.stages.push_back(cost_stage(10, 0, messages_of_dissemination, "p ceil(log2 p) messages"));
  lab.stages.push_back(cost_stage(10, 0, rounds_of_dissemination, "ceil(log2 p) rounds"));
  return lab;
}

}  // namespace tutti::labs
