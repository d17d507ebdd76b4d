// Lab ring: grading.

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs {
namespace {

constexpr std::size_t kCount = 1260;  // a multiple of 1 .. 7 and of 9; 8 ranks have chunks of two lengths

double hops(const Case& posed) { return 2.0 * (posed.world_size - 1); }

/// The longest chunk.
double chunk_bytes(const Case& posed) {
  const auto p = static_cast<std::size_t>(posed.world_size);
  return static_cast<double>((posed.count + p - 1) / p * size_of(posed.type));
}

Allowance bytes_of_a_ring(const Case& posed) {
  Allowance allowed;
  allowed.rank_bytes = hops(posed) * chunk_bytes(posed);
  return allowed;
}

Allowance hops_of_a_ring(const Case& posed) {
  Allowance allowed;
  allowed.rank_messages = hops(posed);
  allowed.rounds = hops(posed);
  allowed.path_bytes = hops(posed) * chunk_bytes(posed);
  return allowed;
}

}  // namespace

Lab ring_lab() {
  Lab lab;
  lab.name = "ring";
  lab.title = "All_reduce that sends as few bytes as can be, around a ring";
  lab.function = "all_reduce";
  lab.first_step =
      "Write chunk(): n elements in p parts, one behind the other, none forgotten. Then one hop: send your own chunk "
      "to "
      "the right, receive the left neighbour's into a vector of your own (sendrecv), and combine.";
  lab.stages = {worlds_stage("all_reduce", 25),
                counts_stage(15),
                types_stage(5),
                order_stage(5),
                long_stage(15),
                repeats_stage(5)};
  lab.stages.push_back(cost_stage(15, kCount, bytes_of_a_ring, "each rank sends and receives 2 n (p - 1) / p bytes"));
  lab.stages.push_back(cost_stage(15, kCount, hops_of_a_ring, "2 (p - 1) hops, all ranks at once"));
  return lab;
}

}  // namespace tutti::labs
