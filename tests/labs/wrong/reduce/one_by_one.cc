// Right, but everybody stands in line at the root.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <vector>

using namespace tutti::labs;

template <typename T>
void reduce(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op, int root) {
  if (ranks.rank() != root) {
    ranks.send(input, root);
    return;
  }
  std::ranges::copy(input, output.begin());
  std::vector<T> incoming(input.size());
  for (int rank = 0; rank < ranks.world_size(); ++rank) {
    if (rank == root) continue;
    ranks.recv(std::span<T>(incoming), rank);
    op(output, incoming);
  }
}

TUTTI_LAB_REDUCE(reduce)
