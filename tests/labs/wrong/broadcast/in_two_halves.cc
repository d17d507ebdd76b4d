// Right, but each message is sent in two halves, and costs alpha twice.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  const int place = (ranks.rank() - root + p) % p;
  const auto rank_at = [&](int other) { return (other + root) % p; };
  const std::size_t half = data.size() / 2;
  int distance = 1;
  if (place > 0) {
    while (2 * distance <= place) distance *= 2;  // the highest bit of place: whom the data comes from
    ranks.recv(data.first(half), rank_at(place - distance));
    ranks.recv(data.subspan(half), rank_at(place - distance));
    distance *= 2;
  }
  for (; place + distance < p; distance *= 2) {
    ranks.send(data.first(half), rank_at(place + distance));
    ranks.send(data.subspan(half), rank_at(place + distance));
  }
}

TUTTI_LAB_BROADCAST(broadcast)
