// Each rank receives with its own number as the tag, and not with its neighbour's, which the message has.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int p = ranks.world_size();
  const int right = (ranks.rank() + 1) % p;
  const int left = (ranks.rank() - 1 + p) % p;
  ranks.sendrecv(outgoing, right, incoming, left, ranks.rank(), ranks.rank());
}

TUTTI_LAB_SHIFT(shift)
