// Right, but one message for each element.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  const int place = (ranks.rank() - root + p) % p;
  const auto rank_at = [&](int other) { return (other + root) % p; };
  int distance = 1;
  if (place > 0) {
    while (2 * distance <= place) distance *= 2;
    for (std::size_t i = 0; i < data.size(); ++i) ranks.recv(data.subspan(i, 1), rank_at(place - distance));
    distance *= 2;
  }
  for (; place + distance < p; distance *= 2) {
    for (std::size_t i = 0; i < data.size(); ++i) ranks.send(data.subspan(i, 1), rank_at(place + distance));
  }
}

TUTTI_LAB_BROADCAST(broadcast)
