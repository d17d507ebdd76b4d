// Swaps with whoever comes first: partners of later rounds overtake those of earlier ones.
#include <tutti/tools/labs/lab.h>

#include <bit>
#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  const int p = ranks.world_size();
  const int rank = ranks.rank();
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
  std::vector<T> incoming(data.size());
  if (rank >= q) {
    ranks.send(data, rank - q);
    ranks.recv(data, rank - q);
    return;
  }
  if (rank + q < p) {
    ranks.recv(std::span<T>(incoming), rank + q);
    op(data, incoming);
  }
  for (int distance = 1; distance < q; distance *= 2) {
    const int partner = rank ^ distance;
    ranks.sendrecv(data, partner, std::span<T>(incoming), kAnySource);
    op(data, incoming);
  }
  if (rank + q < p) ranks.send(data, rank + q);
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
