// The usual stages: which cases are tried along each axis.

#include <tutti/tools/labs/lab_definition.h>

#include <utility>

namespace tutti::labs {
namespace {

Stage stage(std::string name, std::string title, int points, Axis axis) {
  Stage made;
  made.name = std::move(name);
  made.title = std::move(title);
  made.points = points;
  made.axis = axis;
  return made;
}

}  // namespace

Stage worlds_stage(const std::string&, int points) {
  Stage made = stage("worlds", "any number of ranks", points, Axis::Worlds);
  for (const int world_size : {2, 4, 1, 3, 5, 6, 7, 8, 9}) {
    Case posed;
    posed.world_size = world_size;
    posed.count = static_cast<std::size_t>(world_size) * 4;  // whole chunks; lengths are another stage's business
    made.cases.push_back(posed);
  }
  return made;
}

Stage roots_stage(int points) {
  Stage made = stage("roots", "any root", points, Axis::Roots);
  for (const auto& [world_size, root] : {std::pair{4, 0}, {4, 1}, {4, 2}, {4, 3}, {5, 1}, {5, 4}, {2, 1}, {7, 3}}) {
    Case posed;
    posed.world_size = world_size;
    posed.root = root;
    made.cases.push_back(posed);
  }
  return made;
}

Stage counts_stage(int points) {
  Stage made = stage("counts", "any number of elements", points, Axis::Counts);
  for (const int world_size : {4, 3}) {
    for (const std::size_t count : {12, 13, 14, 15, 31, 600, 1, 2, 0}) {
      Case posed;
      posed.world_size = world_size;
      posed.count = count;
      made.cases.push_back(posed);
    }
  }
  return made;
}

Stage types_stage(int points) {
  Stage made = stage("types", "element types and operators", points, Axis::Types);
  using enum ElementType;
  using enum Combination;
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
    Case posed;
    posed.type = type;
    posed.op = op;
    made.cases.push_back(posed);
  }
  Case rounded;
  rounded.type = Float32;
  rounded.is_rounded = true;
  rounded.count = 100;
  made.cases.push_back(rounded);
  return made;
}

Stage order_stage(int points) {
  Stage made = stage("order", "messages that are late", points, Axis::Order);
  for (const int world_size : {4, 5, 8}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      Case posed;
      posed.world_size = world_size;
      posed.count = 11;
      posed.root = static_cast<int>(seed) - 1;
      posed.repetitions = 2;
      posed.network.jitter = 30;
      posed.network.seed = seed;
      made.cases.push_back(posed);
    }
  }
  return made;
}

Stage long_stage(int points) {
  Stage made = stage("long", "sends that wait for their receiver", points, Axis::Long);
  for (const int world_size : {2, 4, 8, 3, 5}) {
    Case posed;
    posed.world_size = world_size;
    posed.network.eager_bytes = 0;
    made.cases.push_back(posed);
  }
  Case really_long;  // 800,000 bytes on the network as it is
  really_long.count = 100'000;
  made.cases.push_back(really_long);
  return made;
}

Stage repeats_stage(int points) {
  Stage made = stage("repeats", "called again and again", points, Axis::Repeats);
  for (const int world_size : {2, 4, 5}) {
    Case posed;
    posed.world_size = world_size;
    posed.repetitions = 5;
    made.cases.push_back(posed);
  }
  return made;
}

Stage cost_stage(int points, std::size_t count, std::function<Allowance(const Case&)> bound, std::string bound_text) {
  Stage made = stage("cost", "cost: " + bound_text, points, Axis::Cost);
  for (int world_size = 2; world_size <= 8; ++world_size) {
    Case posed;
    posed.world_size = world_size;
    posed.count = count;
    made.cases.push_back(posed);
  }
  made.bound = std::move(bound);
  made.bound_text = std::move(bound_text);
  return made;
}

}  // namespace tutti::labs
