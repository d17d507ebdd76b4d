// Sends to ranks that do not exist, unless the number of ranks is a power of two.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  const int place = ranks.rank() ^ root;
  int distance = 1;
  if (place > 0) {
    while (2 * distance <= place) distance *= 2;
    ranks.recv(data, (place - distance) ^ root);
    distance *= 2;
  }
  for (; distance < p; distance *= 2) ranks.send(data, (place + distance) ^ root);
}

TUTTI_LAB_BROADCAST(broadcast)
