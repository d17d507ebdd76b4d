// The usual cases along each axis, and the lab that they make.

#include <tutti/tools/labs/lab_definition.h>

#include <utility>

namespace tutti::labs {
namespace {

using Cases = std::vector<Case>;

Case case_of(int world_size, std::size_t count = Case{}.count) {
  Case posed;
  posed.world_size = world_size;
  posed.count = count;
  return posed;
}

Cases worlds(const CollectiveLab& lab) {
  Cases cases;
  for (const int world_size : {2, 4, 1, 3, 5, 6, 7, 8, 9}) {
    const auto whole_chunks = static_cast<std::size_t>(world_size) * 4;  // lengths are another stage's business
    cases.push_back(case_of(world_size, lab.worlds_count > 0 ? lab.worlds_count : whole_chunks));
  }
  return cases;
}

Cases roots(const CollectiveLab&) {
  Cases cases;
  for (const auto& [world_size, root] : {std::pair{4, 0}, {4, 1}, {4, 2}, {4, 3}, {5, 1}, {5, 4}, {2, 1}, {7, 3}}) {
    cases.push_back(case_of(world_size));
    cases.back().root = root;
  }
  return cases;
}

Cases counts(const CollectiveLab&) {
  Cases cases;
  for (const int world_size : {4, 3}) {
    for (const std::size_t count : {12, 13, 14, 15, 31, 600, 1, 2, 0}) cases.push_back(case_of(world_size, count));
  }
  return cases;
}

Cases types(const CollectiveLab&) {
  using enum ElementType;
  using enum Combination;
  Cases cases;
  for (const auto& [type, op] : {std::pair{Float32, Sum},
                                 {Int32, Sum},
                                 {Int64, Sum},
                                 {UInt8, Sum},
                                 {UInt64, Sum},
                                 {Float64, Prod},
                                 {Float64, Min},
                                 {Float64, Max},
                                 {Int32, Max},
                                 {UInt8, Min}}) {
    cases.push_back(case_of(4));
    cases.back().type = type;
    cases.back().op = op;
  }
  cases.push_back(case_of(4, 100));
  cases.back().type = Float32;
  cases.back().is_rounded = true;
  return cases;
}

Cases late_messages(const CollectiveLab&) {
  Cases cases;
  for (const int world_size : {4, 5, 8}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      cases.push_back(case_of(world_size, 11));
      cases.back().root = static_cast<int>(seed) - 1;
      cases.back().repetitions = 2;
      cases.back().network.jitter = 30;
      cases.back().network.seed = seed;
    }
  }
  return cases;
}

Cases waiting_sends(const CollectiveLab&) {
  Cases cases;
  for (const int world_size : {2, 4, 8, 3, 5}) {
    cases.push_back(case_of(world_size));
    cases.back().network.eager_bytes = 0;
  }
  cases.push_back(case_of(4, 100'000));  // 800,000 bytes on the network as it is
  return cases;
}

Cases repeats(const CollectiveLab&) {
  Cases cases;
  for (const int world_size : {2, 4, 5}) {
    cases.push_back(case_of(world_size));
    cases.back().repetitions = 5;
  }
  return cases;
}

struct Usual {
  Axis axis;
  const char* name;
  const char* title;
  int CollectiveLab::*points;
  Cases (*cases)(const CollectiveLab&);
};
constexpr Usual kUsual[] = {
    {Axis::Worlds, "worlds", "any number of ranks", &CollectiveLab::worlds, worlds},
    {Axis::Roots, "roots", "any root", &CollectiveLab::roots, roots},
    {Axis::Counts, "counts", "any number of elements", &CollectiveLab::counts, counts},
    {Axis::Types, "types", "element types and operators", &CollectiveLab::types, types},
    {Axis::Order, "order", "messages that are late", &CollectiveLab::order, late_messages},
    {Axis::Long, "long", "sends that wait for their receiver", &CollectiveLab::long_messages, waiting_sends},
    {Axis::Repeats, "repeats", "called again and again", &CollectiveLab::repeats, repeats},
};

}  // namespace

Lab lab_of(const CollectiveLab& declared) {
  Lab lab{declared.name, declared.title, declared.function, declared.first_step};
  for (const Usual& usual : kUsual) {
    const int points = declared.*usual.points;
    if (points == 0) continue;
    lab.stages.push_back({usual.name, usual.title, points, usual.axis, usual.cases(declared)});
    // A function that ignores its root earns little: only numbers of ranks and cost are tried with root 0 alone.
    const bool is_any_root = usual.axis != Axis::Worlds && usual.axis != Axis::Roots && usual.axis != Axis::Order;
    for (Case& posed : lab.stages.back().cases) {
      if (declared.roots > 0 && is_any_root) posed.root = posed.world_size - 1;
    }
  }
  Cases cost_cases;
  for (int world_size = 2; world_size <= 8; ++world_size)
    cost_cases.push_back(case_of(world_size, declared.cost_count));
  for (const CostBound& cost : declared.costs) {
    lab.stages.push_back(
        {"cost", std::string("cost: ") + cost.text, cost.points, Axis::Cost, cost_cases, cost.allowed});
  }
  return lab;
}

}  // namespace tutti::labs
