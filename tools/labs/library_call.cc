#include <tutti/tools/labs/library_call.h>

namespace tutti::labs {

std::optional<comm::OpKind> operation_of(const std::string& function) {
  using enum comm::OpKind;
  for (const comm::OpKind op : {Broadcast, Reduce, AllReduce, Barrier}) {
    if (comm::name(op) == function) return op;
  }
  return std::nullopt;
}

comm::Problem problem_of(comm::OpKind op, const Case& posed) {
  comm::Problem problem;
  problem.op = op;
  problem.world_size = posed.world_size;
  problem.count = op == comm::OpKind::Barrier ? 0 : posed.count;
  problem.root = posed.root;
  return problem;
}

comm::NetworkModel network_model(const NetworkSettings& settings) {
  return {.alpha = settings.alpha, .beta = settings.beta, .gamma = settings.gamma};
}

}  // namespace tutti::labs
