// Ranks without a partner sit the round out, and the others never hear of what they have.
#include <tutti/tools/labs/lab.h>

#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  std::vector<T> incoming(data.size());
  for (int distance = 1; distance < ranks.world_size(); distance *= 2) {
    const int partner = ranks.rank() ^ distance;
    if (partner >= ranks.world_size()) continue;
    ranks.sendrecv(data, partner, std::span<T>(incoming), partner);
    op(data, incoming);
  }
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
