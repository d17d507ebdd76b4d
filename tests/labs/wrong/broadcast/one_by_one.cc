// Right, but the root sends to everybody by itself.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  if (ranks.rank() != root) {
    ranks.recv(data, root);
    return;
  }
  for (int rank = 0; rank < p; ++rank) {
    if (rank != root) ranks.send(data, rank);
  }
}

TUTTI_LAB_BROADCAST(broadcast)
