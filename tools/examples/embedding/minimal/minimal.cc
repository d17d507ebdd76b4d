#include <tutti/comm/process_group.h>

#include <cstdio>
#include <vector>

int main() {
  using namespace tutti::comm;
  const auto group = ProcessGroup::connect(World::detect());
  std::vector<float> values(1000, static_cast<float>(group->rank() + 1));
  group->all_reduce(std::span(values));  // in place; every rank ends with the sum
  std::printf("rank %d of %d: %g\n", group->rank(), group->world_size(), values[0]);
  group->shutdown();
}
