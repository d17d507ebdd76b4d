// A chunk has one element at least: in arrays shorter than the number of ranks the last one's length is below zero.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  const int p = ranks.world_size();
  const int rank = ranks.rank();
  const int right = (rank + 1) % p;
  const int left = (rank - 1 + p) % p;
  const auto chunk = [&](int index) {
    const auto c = static_cast<std::size_t>((index % p + p) % p);
    const std::size_t length = std::max<std::size_t>(1, data.size() / static_cast<std::size_t>(p));
    const std::size_t end = c + 1 == static_cast<std::size_t>(p) ? data.size() : (c + 1) * length;
    return std::span<T>(data.data() + c * length, end - c * length);
  };
  std::vector<T> memory(std::max(chunk(0).size(), chunk(p - 1).size()));  // the last chunk is often longer
  for (int hop = 0; hop < p - 1; ++hop) {
    const std::span<T> mine = chunk(rank - hop - 1);
    const std::span<T> incoming = std::span(memory).first(mine.size());
    ranks.sendrecv(std::span<const T>(chunk(rank - hop)), right, incoming, left);
    op(mine, incoming);
  }
  for (int hop = 0; hop < p - 1; ++hop) {
    ranks.sendrecv(std::span<const T>(chunk(rank + 1 - hop)), right, chunk(rank - hop), left);
  }
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
