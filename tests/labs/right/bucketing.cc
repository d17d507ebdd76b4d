// Tensors are laid side by side until the next one does not fit; each full bucket is one all_reduce.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <bit>
#include <vector>

using namespace tutti::labs;

namespace {

/// Recursive doubling, as in all_reduce.cc.
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
    ranks.sendrecv(data, rank ^ distance, std::span<T>(incoming), rank ^ distance);
    op(data, incoming);
  }
  if (rank + q < p) ranks.send(data, rank + q);
}

}  // namespace

template <typename T>
void all_reduce_many(Ranks& ranks, std::span<const std::span<T>> tensors, const Operator<T>& op,
                     std::size_t bucket_bytes) {
  const std::size_t limit = bucket_bytes / sizeof(T);
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
