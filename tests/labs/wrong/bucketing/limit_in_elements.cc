// Takes the limit, which is in bytes, for a number of elements.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <vector>

using namespace tutti::labs;

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  if (ranks.rank() != 0) {
    ranks.send(data, 0);
    ranks.recv(data, 0);
    return;
  }
  std::vector<T> incoming(data.size());
  for (int other = 1; other < ranks.world_size(); ++other) {
    ranks.recv(std::span<T>(incoming), other);
    op(data, incoming);
  }
  for (int other = 1; other < ranks.world_size(); ++other) ranks.send(data, other);
}

template <typename T>
void all_reduce_many(Ranks& ranks, std::span<const std::span<T>> tensors, const Operator<T>& op,
                     std::size_t bucket_bytes) {
  const std::size_t limit = bucket_bytes;
  std::vector<T> bucket;
  for (std::size_t first = 0; first < tensors.size();) {
    bucket.clear();
    std::size_t last = first;
    do {
      bucket.insert(bucket.end(), tensors[last].begin(), tensors[last].end());
      ++last;
    } while (last < tensors.size() && bucket.size() + tensors[last].size() <= limit);
    all_reduce(ranks, std::span<T>(bucket), op);
    for (auto from = bucket.begin(); first < last; ++first) {
      std::copy_n(from, tensors[first].size(), tensors[first].begin());
      from += static_cast<std::ptrdiff_t>(tensors[first].size());
    }
  }
}

TUTTI_LAB_ALL_REDUCE_MANY(all_reduce_many)
