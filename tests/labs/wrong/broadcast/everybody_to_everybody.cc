// Right, but whoever has the data sends it to everybody who might not have it: p (p - 1) / 2 messages.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  const int place = (ranks.rank() - root + p) % p;
  for (int from = 0; from < place; ++from) ranks.recv(data, (from + root) % p);
  for (int to = place + 1; to < p; ++to) ranks.send(data, (to + root) % p);
}

TUTTI_LAB_BROADCAST(broadcast)
