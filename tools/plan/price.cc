#include <tutti/tools/plan/price.h>

#include <algorithm>

namespace tutti::tools {
namespace {

using comm::Problem;
using comm::Schedule;
using comm::Step;

constexpr std::size_t kMostSteps = 6'000'000;  // of all ranks together: a gigabyte in the simulator

Schedule schedule_of(const Question& question, std::string_view algorithm, int rank) {
  Problem problem = question.problem;
  problem.rank = rank;
  return comm::algorithms::select(problem, question.element_bytes, algorithm);
}

void look_at(const Question& question, const Schedule& schedule, Price& price) {
  std::uint64_t messages[2] = {0, 0};  // sent, received
  std::uint64_t bytes[2] = {0, 0};
  for (const Step& step : schedule.steps) {
    if (step.kind == Step::Kind::Copy || step.kind == Step::Kind::Reduce) continue;
    const bool is_send = step.kind == Step::Kind::Send;
    ++messages[is_send ? 0 : 1];
    bytes[is_send ? 0 : 1] += (is_send ? step.source.count : step.target.count) * question.element_bytes;
  }
  price.steps = std::max(price.steps, schedule.steps.size());
  price.messages = std::max({price.messages, messages[0], messages[1]});
  price.bytes = std::max({price.bytes, bytes[0], bytes[1]});
}

/// The root, its neighbours, both ends of the world, and some in between.
std::vector<int> sample(const Problem& problem) {
  const int p = problem.world_size;
  std::vector<int> ranks = {problem.root, (problem.root + 1) % p, (problem.root + p - 1) % p, p - 1};
  for (int i = 0; i < 64; ++i) ranks.push_back(static_cast<int>(static_cast<std::int64_t>(p) * i / 64));
  return ranks;
}

std::string millions(std::size_t steps) { return std::to_string(steps / 1'000'000) + " million"; }

/// Notes and the simulated time. `all_steps` is an upper estimate of the steps of all ranks.
void simulate(const Question& question, std::size_t all_steps, Price& price) {
  Problem problem = question.problem;
  if (!comm::algorithms::rotates(problem, price.algorithm) && all_steps > kMostSteps) {
    // With chunks of one length a single rank's schedule stands for all.
    const auto p = static_cast<std::size_t>(problem.world_size);
    problem.count = (problem.count + p - 1) / p * p;
    if (!comm::algorithms::rotates(problem, price.algorithm)) {
      price.notes.push_back(price.algorithm + " was not simulated: up to " + millions(all_steps) +
                            " steps are too many (at most " + millions(kMostSteps) + ")");
      return;
    }
    price.notes.push_back(price.algorithm + " was simulated with " +
                          std::to_string(problem.count * question.element_bytes) +
                          " bytes, which make chunks of one length");
  }
  price.simulated_seconds = comm::simulate(problem, question.element_bytes, price.algorithm, question.network).finish();
}

}  // namespace

std::vector<std::string_view> fitting_algorithms(const Question& question) {
  std::vector<std::string_view> result = comm::algorithms::names_for(question.problem.op);
  std::erase_if(result, [&](std::string_view name) {
    const bool is_hierarchical = name.rfind("hierarchical", 0) == 0;
    return (is_hierarchical && question.problem.hosts.empty()) || schedule_of(question, name, 0).algorithm != name;
  });
  return result;
}

Price price(const Question& question, std::string_view algorithm) {
  Price result;
  result.algorithm = algorithm;
  const Problem& problem = question.problem;
  look_at(question, schedule_of(question, algorithm, problem.root), result);
  if (!comm::algorithms::rotates(problem, algorithm)) {
    const bool is_too_much = result.steps * static_cast<std::size_t>(problem.world_size) > kMostSteps;
    if (is_too_much) {
      result.notes.push_back(result.algorithm + ": the busiest of 68 ranks that were looked at");
      for (const int rank : sample(problem)) look_at(question, schedule_of(question, algorithm, rank), result);
    } else {
      for (int rank = 0; rank < problem.world_size; ++rank) {
        look_at(question, schedule_of(question, algorithm, rank), result);
      }
    }
  }
  result.predicted_seconds = comm::predicted_seconds(problem, question.element_bytes, algorithm, question.network);
  if (question.simulate) simulate(question, result.steps * static_cast<std::size_t>(problem.world_size), result);
  return result;
}

}  // namespace tutti::tools
