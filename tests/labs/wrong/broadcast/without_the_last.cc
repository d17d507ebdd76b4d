// The last element stays behind: an index that stops one too early.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void broadcast(Ranks& ranks, std::span<T> data, int root) {
  const std::span<T> part = data.first(data.empty() ? 0 : data.size() - 1);

  const int p = ranks.world_size();
  const int place = (ranks.rank() - root + p) % p;
  const auto rank_at = [&](int other) { return (other + root) % p; };
  int distance = 1;
  if (place > 0) {
    while (2 * distance <= place) distance *= 2;
    ranks.recv(part, rank_at(place - distance));
    distance *= 2;
  }
  for (; place + distance < p; distance *= 2) ranks.send(part, rank_at(place + distance));
}

TUTTI_LAB_BROADCAST(broadcast)
