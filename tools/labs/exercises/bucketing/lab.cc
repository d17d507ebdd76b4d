// Lab bucketing: grading. Costs are bounded by the number of buckets, whatever all_reduce the student brings along.

#include <tutti/tools/labs/lab_definition.h>

#include <algorithm>

namespace tutti::labs {
namespace {

constexpr std::uint64_t kBucketBytes = 256;

Case posed(int world_size, std::vector<std::size_t> counts) {
  Case made;
  made.world_size = world_size;
  made.counts = std::move(counts);
  made.parameter = kBucketBytes;
  return made;
}

/// Weights and biases of a small net: long and short in turns, none of which fills a bucket by itself.
std::vector<std::size_t> weights_and_biases(std::size_t layers) {
  std::vector<std::size_t> counts;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    counts.push_back(4 + layer % 3);
    counts.push_back(1);
  }
  return counts;
}

/// Buckets when tensors are taken in their order and never cut.
double buckets_of(const Case& made) {
  const std::size_t limit = made.parameter / size_of(made.type);
  double buckets = 0;
  std::size_t filled = limit + 1;  // nothing fits
  for (const std::size_t count : made.counts) {
    const bool fits = filled + count <= limit;
    filled = fits ? filled + count : count;
    buckets += fits ? 0 : 1;
  }
  return buckets;
}

/// A ring's, which sends the most messages of all good algorithms: 2 (p - 1) from each rank.
Allowance messages_by_buckets(const Case& made) {
  Allowance allowed;
  allowed.messages = buckets_of(made) * 2 * made.world_size * (made.world_size - 1);
  allowed.rounds = buckets_of(made) * 2 * (made.world_size - 1);
  return allowed;
}

Allowance no_longer_than_a_bucket(const Case& made) {
  Allowance allowed;
  const std::size_t longest = made.counts.empty() ? 0 : *std::ranges::max_element(made.counts);
  allowed.message_bytes = static_cast<double>(std::max<std::size_t>(made.parameter, longest * size_of(made.type)));
  return allowed;
}

Stage stage(std::string name, std::string title, int points, Axis axis, std::vector<Case> cases) {
  Stage made;
  made.name = std::move(name);
  made.title = std::move(title);
  made.points = points;
  made.axis = axis;
  made.cases = std::move(cases);
  return made;
}

Stage any_world() {
  std::vector<Case> cases;
  for (const int world_size : {2, 4, 1, 3, 5, 6, 7, 8}) cases.push_back(posed(world_size, {3, 1, 20, 2, 30, 5}));
  return stage("worlds", "any number of ranks", 20, Axis::Worlds, cases);
}

Stage any_lengths() {
  const std::vector<std::vector<std::size_t>> lists = {{5},       {16, 16},  {31, 1, 1}, {33}, {3, 100, 3},
                                                       {100, 50}, {0, 4, 0}, {0},        {}};
  std::vector<Case> cases;
  for (const auto& counts : lists) cases.push_back(posed(3, counts));
  return stage("lengths", "tensors of any lengths, the last bucket", 25, Axis::Counts, cases);
}

Stage any_types() {
  std::vector<Case> cases;
  for (const auto& [type, op] : {std::pair{ElementType::Float32, Combination::Sum},
                                 {ElementType::Int64, Combination::Max},
                                 {ElementType::UInt8, Combination::Min},
                                 {ElementType::Float64, Combination::Prod}}) {
    cases.push_back(posed(3, {3, 1, 20, 2, 30, 5}));
    cases.back().type = type;
    cases.back().op = op;
  }
  return stage("types", "element types and operators", 10, Axis::Types, cases);
}

Stage late_messages() {
  std::vector<Case> cases;
  for (const std::uint64_t seed : {1, 2, 3}) {
    cases.push_back(posed(4, {30, 20, 40, 1}));
    cases.back().network.jitter = 20;
    cases.back().network.seed = seed;
  }
  return stage("order", "messages that are late", 10, Axis::Order, cases);
}

Stage waiting_sends() {
  std::vector<Case> cases;
  for (const int world_size : {2, 3, 4}) {
    cases.push_back(posed(world_size, {30, 20, 40, 1}));
    cases.back().network.eager_bytes = 0;
  }
  return stage("long", "sends that wait for their receiver", 10, Axis::Long, cases);
}

Stage cost(std::string name, int points, std::function<Allowance(const Case&)> bound, std::string text) {
  std::vector<Case> cases;
  for (const int world_size : {2, 4, 8}) cases.push_back(posed(world_size, weights_and_biases(40)));
  Stage made = stage(std::move(name), "cost: " + text, points, Axis::Cost, cases);
  made.bound = std::move(bound);
  made.bound_text = std::move(text);
  return made;
}

}  // namespace

Lab bucketing_lab() {
  Lab lab;
  lab.name = "bucketing";
  lab.title = "Many gradients in few messages";
  lab.function = "all_reduce_many";
  lab.first_step =
      "Call all_reduce(ranks, tensor, op) for each tensor. The results are right then; the cost comes next.";
  lab.stages = {any_world(), any_lengths(), any_types(), late_messages(), waiting_sends()};
  lab.stages.push_back(cost("messages", 15, messages_by_buckets, "no more messages than the buckets need"));
  lab.stages.push_back(cost("longest", 10, no_longer_than_a_bucket, "no message longer than a bucket"));
  return lab;
}

}  // namespace tutti::labs
