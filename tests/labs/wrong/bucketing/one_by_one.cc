// Right, but one all_reduce for each tensor.
#include <tutti/tools/labs/lab.h>

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
  static_cast<void>(bucket_bytes);
  for (const std::span<T> tensor : tensors) all_reduce(ranks, tensor, op);
}

TUTTI_LAB_ALL_REDUCE_MANY(all_reduce_many)
