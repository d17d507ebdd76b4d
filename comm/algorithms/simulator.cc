#include <tutti/comm/algorithms/simulation_engine.h>
#include <tutti/comm/algorithms/simulator.h>

#include <algorithm>

namespace tutti::comm {
namespace {

using Programs = SimulationEngine::Programs;

bool all_alike(const NetworkModel& network, const std::vector<int>& host_of) {
  return std::all_of(network.slowdown.begin(), network.slowdown.end(), [](double factor) { return factor == 1; }) &&
         std::all_of(host_of.begin(), host_of.end(), [&](int host) { return host == host_of.front(); });
}

Programs pointers(const std::vector<RankProgram>& programs) {
  Programs result;
  for (const RankProgram& program : programs) result.push_back(&program);
  return result;
}

}  // namespace

double Simulation::finish() const {
  double last = 0;
  for (const RankTimes& rank : ranks) last = std::max(last, rank.finish);
  return last;
}

Simulation simulate(std::span<const Schedule> schedules, std::size_t element_bytes, const NetworkModel& network,
                    const TransferObserver& observer, const CompletionObserver& on_completion) {
  const int world_size = static_cast<int>(schedules.size());
  std::vector<RankProgram> programs;
  for (int rank = 0; rank < world_size; ++rank) {
    programs.emplace_back(schedules[static_cast<std::size_t>(rank)], rank, world_size, element_bytes);
  }
  return SimulationEngine(pointers(programs), world_size, network, {}, observer, on_completion).run();
}

Simulation simulate(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                    const NetworkModel& network, const TransferObserver& observer) {
  const int world_size = problem.world_size;
  const auto size = static_cast<std::size_t>(world_size);
  std::vector<RankProgram> programs;
  Problem one = problem;
  const bool rotates = algorithms::rotates(problem, algorithm);
  for (one.rank = 0; one.rank < (rotates ? 1 : world_size); ++one.rank) {
    programs.emplace_back(algorithms::select(one, element_bytes, algorithm), one.rank, world_size, element_bytes);
  }
  if (!rotates) return SimulationEngine(pointers(programs), world_size, network, problem.hosts, observer).run();

  const bool one_for_all = all_alike(network, problem.hosts) && !observer;
  const Programs all(one_for_all ? 1 : size, &programs.front());
  Simulation result = SimulationEngine(all, world_size, network, problem.hosts, observer).run();
  result.ranks.resize(size, result.ranks.front());
  return result;
}

}  // namespace tutti::comm
