// Right, bit for bit, but with p (p - 1) messages.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  const int p = ranks.world_size();
  const int rank = ranks.rank();
  std::vector<std::vector<T>> all(static_cast<std::size_t>(p), std::vector<T>(data.begin(), data.end()));
  for (int hop = 1; hop < p; ++hop) {
    const int source = (rank - hop + p) % p;
    ranks.sendrecv(data, (rank + hop) % p, std::span<T>(all[static_cast<std::size_t>(source)]), source);
  }
  std::ranges::copy(all[0], data.begin());
  for (int other = 1; other < p; ++other) op(data, all[static_cast<std::size_t>(other)]);
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
