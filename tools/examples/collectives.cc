// Every collective once, with numbers that can be followed by hand. (programs.md, row 3)
//
//   tutti run -n 4 build/release/bin/examples/collectives
//
// All ranks call the same operations in the same order, with the same counts and types; that is how calls find each
// other. A call that differs is an error on both sides, before anything is computed.
#include <tutti/comm/process_group.h>
#include <tutti/tools/examples/example.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

using tutti::comm::ProcessGroup;
using tutti::comm::ReduceOp;
using tutti::comm::Work;
using Numbers = std::vector<double>;

constexpr int kRoot = 0;

void show(const ProcessGroup& group, const char* operation, const Numbers& numbers) {
  std::string text;
  for (const double number : numbers) text += " " + std::to_string(static_cast<int>(number));
  std::printf("rank %d: %s:%s\n", group.rank(), operation, text.c_str());
}

void one_to_all_and_back(ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  const bool is_root = group.rank() == kRoot;

  Numbers shared(2, is_root ? 7 : 0);
  group.broadcast(std::span(shared), kRoot);
  show(group, "broadcast", shared);  // 7 7 everywhere

  Numbers parts;  // one for each rank, at the root only
  for (std::size_t r = 0; is_root && r < ranks; ++r) parts.push_back(static_cast<double>(10 * r));
  Numbers part(1);
  group.scatter(std::span<const double>(parts), std::span(part), kRoot);
  show(group, "scatter", part);  // 10 times my rank

  const Numbers mine{static_cast<double>(group.rank())};
  Numbers collected(is_root ? ranks : 0);
  group.gather(std::span(mine), std::span(collected), kRoot);
  if (is_root) show(group, "gather", collected);  // 0 1 2 3

  Numbers sum(is_root ? 1 : 0);
  group.reduce(std::span(mine), std::span(sum), ReduceOp::Sum, kRoot);
  if (is_root) show(group, "reduce", sum);  // 0 + 1 + 2 + 3
}

void all_to_each_other(ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  const double mine = group.rank() + 1;

  Numbers results;
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
    double value = mine;
    group.all_reduce(std::span(&value, 1), op);  // in place, and every rank ends with the same bits
    results.push_back(value);
  }
  show(group, "all_reduce sum, prod, min, max", results);
  double average = mine;
  group.all_reduce(std::span(&average, 1), ReduceOp::Avg);
  std::printf("rank %d: all_reduce avg: %g\n", group.rank(), average);

  const Numbers square{mine * mine};
  Numbers squares(ranks);
  group.all_gather(std::span(square), std::span(squares));
  show(group, "all_gather", squares);  // 1 4 9 16

  const Numbers ones(ranks, 1);
  Numbers count(1);
  group.reduce_scatter(std::span(ones), std::span(count));
  show(group, "reduce_scatter", count);  // each rank gets the sum of its part: the number of ranks

  Numbers letters;  // block j goes to rank j
  for (std::size_t j = 0; j < ranks; ++j) letters.push_back(10 * mine + static_cast<double>(j));
  Numbers mail(ranks);
  group.all_to_all(std::span(letters), std::span(mail));
  show(group, "all_to_all", mail);  // 10 (sender + 1) + me, by sender
}

// Every collective has a twin that returns at once. Operations of a group run in the order in which they were called.
void in_the_background(ProcessGroup& group) {
  Numbers numbers(1'000'000, group.rank());
  Work work = group.all_reduce_async(tutti::comm::buffer(std::span(numbers)));
  double own_work = 0;
  for (int i = 1; i <= 1000; ++i) own_work += 1.0 / i;  // the sum is formed meanwhile
  work.wait();                                          // now `numbers` may be read again
  std::printf("rank %d: all_reduce_async: %g after own work %.3f\n", group.rank(), numbers.front(), own_work);
}

}  // namespace

int main(int argc, char** argv) {
  return tutti::examples::run(argc, argv, {}, [](ProcessGroup& group) {
    one_to_all_and_back(group);
    all_to_each_other(group);
    in_the_background(group);
    group.barrier();  // nobody passes before everybody has come
    if (group.rank() == kRoot) std::printf("rank 0: all %d ranks have passed the barrier\n", group.world_size());
  });
}
