// Takes memory until there is none.
#include <tutti/tools/labs/lab.h>

#include <vector>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  std::vector<std::vector<char>> memory;
  while (ranks.world_size() > 0) memory.emplace_back(std::size_t{64} << 20, 'x');
}

TUTTI_LAB_BARRIER(barrier)
