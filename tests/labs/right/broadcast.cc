// Binomial tree over (rank - root) mod p: in the round of distance d, ranks below d, who have the data, each serve rank
// + d.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const int p = ranks.world_size();
  const int place = (ranks.rank() - root + p) % p;
  const auto rank_at = [&](int other) { return (other + root) % p; };
  int distance = 1;
  if (place > 0) {
    while (2 * distance <= place) distance *= 2;  // the highest bit of place: whom the data comes from
    ranks.recv(data, rank_at(place - distance));
    distance *= 2;
  }
  for (; place + distance < p; distance *= 2) ranks.send(data, rank_at(place + distance));
}

TUTTI_LAB_BROADCAST(broadcast)
