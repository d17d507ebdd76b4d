// Takes from the right what it should take from the left.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int p = ranks.world_size();
  const int right = (ranks.rank() + 1) % p;
  const int left = (ranks.rank() - 1 + p) % p;
  static_cast<void>(left);
  ranks.sendrecv(outgoing, left, incoming, right);
}

TUTTI_LAB_SHIFT(shift)
