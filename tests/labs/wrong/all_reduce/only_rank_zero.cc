// That is reduce: only rank 0 has the result.
#include <tutti/tools/labs/lab.h>

#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  const int p = ranks.world_size();
  const int rank = ranks.rank();
  std::vector<T> incoming(data.size());
  for (int distance = 1; distance < p; distance *= 2) {
    if ((rank & distance) != 0) {
      ranks.send(data, rank - distance);
      return;
    }
    if (rank + distance < p) {
      ranks.recv(std::span<T>(incoming), rank + distance);
      op(data, incoming);
    }
  }
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
