// What a submission's messages cost, against the bound and beside the library's.

#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/grade.h>
#include <tutti/tools/labs/library_call.h>
#include <tutti/tools/labs/tasks/task.h>

#include <algorithm>
#include <cmath>

namespace tutti::labs {
namespace {

struct Cost {
  double messages = 0, bytes = 0, rank_messages = 0, rank_bytes = 0, rounds = 0, path_bytes = 0, message_bytes = 0;
};

NetworkSettings counting(double alpha, double beta) {
  NetworkSettings network;
  network.alpha = alpha;
  network.beta = beta;
  network.gamma = 0;
  return network;
}

RunResult run_on(const Lab& lab, Submission& submission, Case posed, const NetworkSettings& network) {
  posed.network = network;
  return submission.run(pose(lab.function, posed, true));
}

// Empty if it did not get to the end: another stage says why.
std::optional<Cost> cost_of(const Lab& lab, Submission& submission, const Case& posed) {
  const RunResult rounds = run_on(lab, submission, posed, counting(1, 0));
  if (rounds.incident) return std::nullopt;
  const RunResult path = run_on(lab, submission, posed, counting(0, 1));
  if (path.incident) return std::nullopt;
  Cost cost;
  cost.rounds = rounds.last_finish();
  cost.path_bytes = path.last_finish();
  cost.messages = static_cast<double>(rounds.messages());
  cost.bytes = static_cast<double>(rounds.bytes());
  cost.message_bytes = static_cast<double>(rounds.longest_message);
  for (const Traffic& rank : rounds.traffic) {
    cost.rank_messages =
        std::max(cost.rank_messages, static_cast<double>(std::max(rank.messages_sent, rank.messages_received)));
    cost.rank_bytes = std::max(cost.rank_bytes, static_cast<double>(std::max(rank.bytes_sent, rank.bytes_received)));
  }
  return cost;
}

std::string number(double value) { return comm::format("%.0f", value); }

struct Excess {
  const char* diagnosis;
  std::string text;
};

std::optional<Excess> excess_of(const Cost& cost, const Allowance& allowed) {
  using namespace diagnosis;
  struct Line {
    double found, bound;
    const char* diagnosis;
    const char* what;
  };
  const Line lines[] = {
      {cost.bytes, allowed.bytes, kTooManyBytes, " bytes are sent by all ranks together, "},
      {cost.rank_bytes, allowed.rank_bytes, kTooManyBytes, " bytes pass through one rank, "},
      {cost.messages, allowed.messages, kTooManyMessages, " messages are sent by all ranks together, "},
      {cost.rank_messages, allowed.rank_messages, kTooManyMessages, " messages pass through one rank, "},
      {cost.message_bytes, allowed.message_bytes, kMessageTooLong, " bytes are in the longest message, "},
      {cost.rounds, allowed.rounds, kTooManyRounds, " messages follow one another before the last rank is done, "},
      {cost.path_bytes, allowed.path_bytes, kSlowPath, " bytes follow one another before the last rank is done, "},
  };
  for (const Line& line : lines) {
    if (line.bound <= 0 || line.found <= line.bound * (1 + 1e-9)) continue;
    return Excess{line.diagnosis, number(line.found) + line.what + number(line.bound) +
                                      (line.bound == 1 ? " is enough" : " are enough")};
  }
  return std::nullopt;
}

// Twice the ranks, four times the bytes of all, or twice those of one where the bound stays.
bool is_quadratic(const std::vector<std::pair<int, Cost>>& costs, const std::vector<Allowance>& bounds) {
  const auto of = [&](int world_size) -> std::size_t {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (costs[i].first == world_size) return i;
    }
    return costs.size();
  };
  const std::size_t four = of(4), eight = of(8);
  if (four == costs.size() || eight == costs.size()) return false;
  const double growth = costs[eight].second.bytes / std::max(costs[four].second.bytes, 1.0);
  const double bound = bounds[four].bytes > 0        ? bounds[eight].bytes / bounds[four].bytes
                       : bounds[four].rank_bytes > 0 ? 2 * bounds[eight].rank_bytes / bounds[four].rank_bytes
                                                     : 2;
  return growth > 3.4 && growth > 1.4 * bound;
}

// Seconds of the library's best algorithm; empty where it has none for this function.
std::optional<double> library_seconds(const Lab& lab, const Case& posed) {
  const std::optional<comm::OpKind> op = operation_of(lab.function);
  if (!op) return std::nullopt;
  std::optional<double> best;
  for (const std::string_view algorithm : comm::algorithms::names_for(*op)) {
    const comm::Simulation run =
        comm::simulate(problem_of(*op, posed), size_of(posed.type), algorithm, network_model(posed.network));
    if (!best || run.finish() < *best) best = run.finish();
  }
  return best;
}

}  // namespace

std::optional<Finding> judge_cost(const Lab& lab, const Stage& stage, Submission& submission, std::string& note) {
  std::vector<std::pair<int, Cost>> costs;
  std::vector<Allowance> bounds;
  std::optional<Finding> finding;
  for (const Case& posed : stage.cases) {
    const std::optional<Cost> cost = cost_of(lab, submission, posed);
    if (!cost) continue;
    costs.emplace_back(posed.world_size, *cost);
    bounds.push_back(stage.bound(posed));
    const std::optional<Excess> excess = excess_of(*cost, bounds.back());
    if (excess && (!finding || excess->diagnosis != finding->evidence || posed.world_size <= 4)) {
      finding = Finding{excess->diagnosis, excess->text, "", excess->diagnosis, describe(lab.function, posed)};
    }
  }
  if (costs.empty()) return Finding{diagnosis::kWrongResult, "no case came to its end", "", "", ""};
  const auto& [world_size, last] = costs.back();
  note = number(last.messages) + " messages, " + number(last.bytes) + " bytes, " +
         counted(static_cast<std::size_t>(last.rounds), "round") + " with " + std::to_string(world_size) + " ranks";
  const bool too_many_bytes = finding && finding->diagnosis == diagnosis::kTooManyBytes;
  if (too_many_bytes && is_quadratic(costs, bounds)) {
    finding->diagnosis = diagnosis::kQuadraticBytes;
    finding->text = "the bytes grow with the square of the number of ranks: " + finding->text;
  }
  return finding;
}

std::vector<Measurement> measure(const Lab& lab, Submission& submission) {
  std::vector<Measurement> measured;
  Case posed;
  posed.world_size = 8;
  posed.counts = {};
  if (lab.function == "all_reduce_many") return measured;
  const std::optional<Cost> cost = cost_of(lab, submission, posed);
  if (!cost) return measured;
  measured.push_back({"latency_slope", cost->rounds, "alpha"});
  for (const std::size_t count : {1, 131'072}) {
    posed.count = count;
    const RunResult run = run_on(lab, submission, posed, NetworkSettings{});
    if (run.incident) return measured;
    const std::string size = count == 1 ? "short" : "long";
    const bool has_data = lab.function != "barrier";
    if (!has_data && count > 1) break;
    if (count > 1) {
      const RunResult path = run_on(lab, submission, posed, counting(0, 1));
      if (!path.incident) {
        measured.push_back({"bandwidth_slope", path.last_finish() / static_cast<double>(posed.bytes()), "n beta"});
      }
    }
    measured.push_back({"time_" + size, run.last_finish() * 1e6, "us"});
    if (const auto library = library_seconds(lab, posed)) {
      measured.push_back({"library_" + size, *library * 1e6, "us"});
      measured.push_back({"ratio_" + size, run.last_finish() / *library, ""});
    }
  }
  return measured;
}

}  // namespace tutti::labs
