// Recursive doubling with partners that may not exist.
#include <tutti/tools/labs/lab.h>

#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  std::vector<T> incoming(data.size());
  for (int distance = 1; distance < ranks.world_size(); distance *= 2) {
    const int partner = ranks.rank() ^ distance;
    ranks.sendrecv(data, partner, std::span<T>(incoming), partner);
    op(data, incoming);
  }
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
