// The two halves of an array travel with one tag, from any source: halves of different ranks and places are mixed up.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <vector>

using namespace tutti::labs;

template <typename T>
void reduce(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op, int root) {
  const std::size_t half = input.size() / 2;
  if (ranks.rank() != root) {
    ranks.send(input.first(half), root);
    ranks.send(input.last(half), root);
    return;
  }
  std::ranges::copy(input, output.begin());
  std::vector<T> incoming(half);
  for (int sender = 1; sender < ranks.world_size(); ++sender) {
    ranks.recv(std::span<T>(incoming), kAnySource);
    op(output.first(half), incoming);
    ranks.recv(std::span<T>(incoming), kAnySource);
    op(output.last(half), incoming);
  }
}

TUTTI_LAB_REDUCE(reduce)
