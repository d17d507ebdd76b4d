// `tutti plan`: what a collective takes, by estimate and by simulation, for each algorithm that does it.

#include <tutti/comm/base/format.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/comm/schedule/schedule.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/help.h>
#include <tutti/tools/plan/price.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLargestDrawnWorld = 16;
constexpr int kLargestWorld = 65'536;
constexpr std::size_t kMostDrawnMessages = 10'000;
constexpr std::size_t kMostBytes = std::size_t{1} << 46;
constexpr std::size_t kMostSegments = 5'000'000;  // of all ranks: a schedule has a step for each

struct PlanOptions {
  std::string op;
  std::optional<std::size_t> bytes;
  int world = 0;
  int root = 0;
  std::string algorithm;
  std::size_t segment = 0;
  int rank = -1;
  double alpha_us = 10;
  double bandwidth = 3;
  double gamma_ns = 0.1;
  std::vector<std::string> stragglers;
  int ranks_per_host = 0;  // 0: nobody knows of hosts
  std::optional<double> local_alpha_us;
  std::optional<double> local_bandwidth;
  bool simulate = false;
  bool draw = false;
  std::string json;
};

void require(bool condition, const std::string& sentence) {
  if (!condition) throw WrongUsage(sentence);
}

template <typename Names>
std::string joined(const Names& names) {
  std::string result;
  for (const auto& name : names) result += (result.empty() ? "" : ", ") + std::string(name);
  return result;
}

comm::OpKind parse_op(const std::string& text) {
  using enum comm::OpKind;
  std::vector<std::string_view> known;
  for (const comm::OpKind op : {AllReduce, Broadcast, Reduce, AllGather, Gather, Scatter, ReduceScatter, AllToAll,
                                GatherV, ScatterV, AllGatherV, ReduceScatterV, Barrier}) {
    if (comm::name(op) == text) return op;
    known.push_back(comm::name(op));
  }
  throw WrongUsage("--op " + text + ": no such operation; known are " + joined(known));
}

/// "3:2.5": rank 3 takes 2.5 times as long.
void parse_straggler(const std::string& text, int world, std::vector<double>& slowdown) {
  int rank = -1;
  double factor = 0;
  int used = 0;
  const int found = std::sscanf(text.c_str(), "%d:%lf%n", &rank, &factor, &used);
  require(found == 2 && static_cast<std::size_t>(used) == text.size() && rank >= 0 && rank < world && factor > 0 &&
              std::isfinite(factor),
          "--straggler " + text + ": expected RANK:FACTOR with a rank of 0 .. " + std::to_string(world - 1) +
              " and a factor above 0");
  slowdown.resize(static_cast<std::size_t>(world), 1);
  slowdown[static_cast<std::size_t>(rank)] = factor;
}

void check_numbers(const PlanOptions& options) {
  const std::string last_rank = std::to_string(options.world - 1);
  require(options.world >= 1 && options.world <= kLargestWorld,
          "--world " + std::to_string(options.world) + ": expected 1 .. " + std::to_string(kLargestWorld));
  require(options.bytes || options.op == "barrier", "--bytes is required");
  const std::size_t bytes = options.bytes.value_or(0);
  require(bytes <= kMostBytes, "--bytes " + std::to_string(bytes) + ": more than 64 TiB");
  require(options.segment <= kMostBytes, "--segment " + std::to_string(options.segment) + ": more than 64 TiB");
  const std::size_t segments = options.segment == 0 ? 1 : bytes / options.segment;
  require(segments * static_cast<std::size_t>(options.world) <= kMostSegments,
          "--segment " + std::to_string(options.segment) + ": makes more than " + std::to_string(kMostSegments) +
              " segments of all ranks together");
  require(options.root >= 0 && options.root < options.world,
          "--root " + std::to_string(options.root) + ": the ranks are 0 .. " + last_rank);
  require(options.rank >= -1 && options.rank < options.world,
          "--rank " + std::to_string(options.rank) + ": the ranks are 0 .. " + last_rank);
  require(!options.draw || options.world <= kLargestDrawnWorld,
          "--draw: a world of " + std::to_string(options.world) + " is too wide, at most " +
              std::to_string(kLargestDrawnWorld) + " ranks are drawn");
  require(std::isfinite(options.alpha_us) && options.alpha_us >= 0, "--alpha must be 0 or more microseconds");
  require(std::isfinite(options.bandwidth) && options.bandwidth > 0, "--bandwidth must be above 0 GB/s");
  require(options.ranks_per_host >= 0 && options.ranks_per_host <= options.world,
          "--ranks-per-host " + std::to_string(options.ranks_per_host) + ": expected 1 .. " +
              std::to_string(options.world));
  require(options.ranks_per_host > 0 || !(options.local_alpha_us || options.local_bandwidth),
          "--local-alpha and --local-bandwidth need --ranks-per-host");
  require(options.local_alpha_us.value_or(0) >= 0 && std::isfinite(options.local_alpha_us.value_or(0)),
          "--local-alpha must be 0 or more microseconds");
  require(options.local_bandwidth.value_or(1) > 0 && std::isfinite(options.local_bandwidth.value_or(1)),
          "--local-bandwidth must be above 0 GB/s");
  require(std::isfinite(options.gamma_ns) && options.gamma_ns >= 0, "--gamma must be 0 or more nanoseconds per byte");
}

comm::NetworkModel network_of(const PlanOptions& options) {
  comm::NetworkModel network{options.alpha_us * 1e-6, 1e-9 / options.bandwidth, options.gamma_ns * 1e-9, {}};
  if (options.local_alpha_us) network.local_alpha = *options.local_alpha_us * 1e-6;
  if (options.local_bandwidth) network.local_beta = 1e-9 / *options.local_bandwidth;
  return network;
}

Question question_of(const PlanOptions& options) {
  Question question;
  question.problem.op = parse_op(options.op);
  check_numbers(options);
  // Chunks are cut between elements; of 4 bytes, as most data's, where the length allows it.
  const std::size_t bytes = options.bytes.value_or(0);
  question.element_bytes = bytes % 4 == 0 && options.segment % 4 == 0 ? 4 : 1;
  question.problem.world_size = options.world;
  question.problem.root = options.root;
  question.problem.segment_count = options.segment / question.element_bytes;
  const std::size_t count = bytes / question.element_bytes;
  if (has_counts(question.problem.op)) {
    question.problem.counts.assign(static_cast<std::size_t>(options.world), count);
  } else if (question.problem.op != comm::OpKind::Barrier) {
    question.problem.count = count;
  }
  question.network = network_of(options);
  for (int rank = 0; options.ranks_per_host > 0 && rank < options.world; ++rank) {
    question.problem.hosts.push_back(rank / options.ranks_per_host);
  }
  for (const std::string& text : options.stragglers) parse_straggler(text, options.world, question.network.slowdown);
  question.simulate = options.simulate;
  require(options.simulate || options.stragglers.empty(), "--straggler needs --simulate");
  return question;
}

std::vector<std::string_view> algorithms_of(const PlanOptions& options, const Question& question) {
  const std::vector<std::string_view> fitting = fitting_algorithms(question);
  if (options.algorithm.empty()) return fitting;
  for (const std::string_view name : fitting) {
    if (name == options.algorithm) return {name};
  }
  throw WrongUsage("--algo " + options.algorithm + ": no algorithm of that name for " + options.op + " of " +
                   std::to_string(options.world) + " ranks; there are " + joined(fitting));
}

std::string microseconds(std::optional<double> seconds) { return seconds ? comm::format("%.2f", *seconds * 1e6) : "-"; }

/// Of one rank.
std::size_t planned_bytes(const PlanOptions& options) {
  return options.op == "barrier" ? 0 : options.bytes.value_or(0);
}

void print_table(const PlanOptions& options, const Question& question, const std::vector<Price>& prices,
                 double lower_bound) {
  std::printf("%s of %zu bytes per rank, %d ranks; alpha %g us, bandwidth %g GB/s, gamma %g ns/byte\n",
              options.op.c_str(), planned_bytes(options), options.world, options.alpha_us, options.bandwidth,
              options.gamma_ns);
  if (options.ranks_per_host > 0) {
    std::printf("%d ranks a host; alpha %g us, bandwidth %g GB/s within a host\n", options.ranks_per_host,
                question.network.local_alpha * 1e6, 1e-9 / question.network.local_beta);
  }
  std::printf("%-20s %29s   %s\n", "", "busiest rank", "time in us");
  std::printf("%-20s %7s %8s %12s %14s %14s\n", "algorithm", "steps", "messages", "bytes", "predicted", "simulated");
  for (const Price& price : prices) {
    std::printf("%-20s %7zu %8llu %12llu %14s %14s\n", price.algorithm.c_str(), price.steps,
                static_cast<unsigned long long>(price.messages), static_cast<unsigned long long>(price.bytes),
                microseconds(price.predicted_seconds).c_str(), microseconds(price.simulated_seconds).c_str());
  }
  std::printf("%-20s %44s\n", "lower bound", microseconds(lower_bound).c_str());
  for (const Price& price : prices) {
    for (const std::string& note : price.notes) std::printf("%s.\n", note.c_str());
  }
}

void print_schedule(const Question& question, std::string_view algorithm, int rank) {
  comm::Problem problem = question.problem;
  problem.rank = rank;
  const comm::Schedule schedule = comm::algorithms::select(problem, question.element_bytes, algorithm);
  std::cout << "\n" << algorithm << ", rank " << rank << ", elements of " << question.element_bytes << " bytes:\n";
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    std::cout << "  " << comm::describe(rank, i, schedule.steps[i]);
    const char* separator = " after ";
    for (const std::uint32_t earlier : schedule.steps[i].after) {
      std::cout << separator << earlier;
      separator = ", ";
    }
    std::cout << "\n";
  }
}

void print_diagram(const Question& question, std::string_view algorithm) {
  std::vector<comm::Transfer> transfers;
  comm::simulate(question.problem, question.element_bytes, algorithm, question.network,
                 [&](const comm::Transfer& transfer) { transfers.push_back(transfer); });
  require(transfers.size() <= kMostDrawnMessages, "--draw: " + std::string(algorithm) + " has " +
                                                      std::to_string(transfers.size()) + " messages, at most " +
                                                      std::to_string(kMostDrawnMessages) + " are drawn");
  std::cout << "\n" << algorithm << ":\n" << diagram(std::move(transfers), question.problem.world_size);
}

Json micros(std::optional<double> seconds) { return seconds ? Json(*seconds * 1e6) : Json(nullptr); }

void write_json(const PlanOptions& options, const std::vector<Price>& prices, double lower_bound) {
  Json rows = Json::array();
  for (const Price& price : prices) {
    rows.push_back({{"algorithm", price.algorithm},
                    {"steps", price.steps},
                    {"messages", price.messages},
                    {"bytes", price.bytes},
                    {"predicted_us", micros(price.predicted_seconds)},
                    {"simulated_us", micros(price.simulated_seconds)},
                    {"notes", price.notes}});
  }
  const Json report = {{"op", options.op},
                       {"bytes", planned_bytes(options)},
                       {"world_size", options.world},
                       {"root", options.root},
                       {"segment_bytes", options.segment},
                       {"ranks_per_host", options.ranks_per_host == 0 ? Json(nullptr) : Json(options.ranks_per_host)},
                       {"alpha_us", options.alpha_us},
                       {"bandwidth_gbps", options.bandwidth},
                       {"gamma_ns", options.gamma_ns},
                       {"lower_bound_us", lower_bound * 1e6},
                       {"algorithms", rows}};
  comm::write_output(options.json, report.dump(2) + "\n");
}

int run_plan(const PlanOptions& options) {
  const Question question = question_of(options);
  const std::vector<std::string_view> names = algorithms_of(options, question);
  std::vector<Price> prices;
  for (const std::string_view name : names) prices.push_back(price(question, name));
  const double lower_bound = lower_bound_seconds(question.problem, question.element_bytes, question.network);
  print_table(options, question, prices, lower_bound);
  std::fflush(stdout);
  for (const std::string_view name : names) {
    if (options.rank >= 0) print_schedule(question, name, options.rank);
    if (options.draw) print_diagram(question, name);
  }
  std::cout << std::flush;
  if (!options.json.empty()) write_json(options, prices, lower_bound);
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand("plan", "Say what a collective takes, by each algorithm that does it");
  plan->add_option("--op", options->op,
                   "all_reduce, broadcast, reduce, all_gather, reduce_scatter, gather, scatter, all_to_all, gather_v, "
                   "scatter_v, all_gather_v, reduce_scatter_v or barrier")
      ->required();
  plan->add_option("--world", options->world, "number of ranks")->required();
  plan->add_option("--bytes", options->bytes,
                   "bytes per rank (of one block in gather, scatter, all_to_all and their kind)");
  plan->add_option("--algo", options->algorithm, "only this algorithm");
  plan->add_option("--root", options->root, "root, where the operation has one")->capture_default_str();
  plan->add_option("--segment", options->segment, "cut messages into segments of so many bytes; 0: do not");
  plan->add_option("--alpha", options->alpha_us, "microseconds per message")->capture_default_str();
  plan->add_option("--bandwidth", options->bandwidth, "GB/s (1e9 bytes) of each rank, each way")->capture_default_str();
  plan->add_option("--gamma", options->gamma_ns, "nanoseconds per byte reduced")->capture_default_str();
  plan->add_option("--straggler", options->stragglers,
                   "RANK:FACTOR, a rank that takes FACTOR times as long to "
                   "simulate; may be repeated");
  plan->add_option("--ranks-per-host", options->ranks_per_host,
                   "ranks that share a host, one behind the other; adds the hierarchical algorithms");
  plan->add_option("--local-alpha", options->local_alpha_us, "microseconds per message within a host [as --alpha]");
  plan->add_option("--local-bandwidth", options->local_bandwidth, "GB/s within a host [as --bandwidth]");
  plan->add_flag("--simulate", options->simulate, "run the schedules of all ranks on this network");
  plan->add_option("--rank", options->rank, "print this rank's schedule");
  plan->add_flag("--draw", options->draw, "draw the messages; up to 16 ranks");
  plan->add_option("--json", options->json, "write the figures to this file too");
  group_options(*plan, {{"Network",
                         {"--alpha", "--bandwidth", "--gamma", "--straggler", "--ranks-per-host", "--local-alpha",
                          "--local-bandwidth", "--simulate"}},
                        {"Output", {"--rank", "--draw", "--json"}}});
  plan->callback([options, &status] { status = status_of("tutti plan", [&] { return run_plan(*options); }); });
}

}  // namespace tutti::tools
