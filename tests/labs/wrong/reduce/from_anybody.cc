// Receives from anybody: a message of the next call is taken for one of this.
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <vector>

using namespace tutti::labs;

template <typename T>
void reduce(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op, int root) {
  const int p = ranks.world_size();
  const int place = (ranks.rank() - root + p) % p;
  const auto rank_at = [&](int other) { return (other + root) % p; };
  std::vector<T> sum(input.begin(), input.end());
  std::vector<T> incoming(input.size());
  for (int distance = 1; distance < p; distance *= 2) {
    if ((place & distance) != 0) {
      ranks.send(std::span<const T>(sum), rank_at(place - distance));
      return;
    }
    if (place + distance < p) {
      ranks.recv(std::span<T>(incoming), kAnySource);
      op(sum, incoming);
    }
  }
  std::ranges::copy(sum, output.begin());
}

TUTTI_LAB_REDUCE(reduce)
