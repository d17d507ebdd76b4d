// The root is a parameter, and is not looked at.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  const int rank = ranks.rank();
  int distance = 1;
  if (rank > 0) {
    while (2 * distance <= rank) distance *= 2;
    ranks.recv(data, rank - distance);
    distance *= 2;
  }
  for (; rank + distance < p; distance *= 2) ranks.send(data, rank + distance);
  static_cast<void>(root);
}

TUTTI_LAB_BROADCAST(broadcast)
