// Each rank sends its elements a second time, and no rank receives them.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int p = ranks.world_size();
  const int right = (ranks.rank() + 1) % p;
  const int left = (ranks.rank() - 1 + p) % p;
  ranks.sendrecv(outgoing, right, incoming, left);
  ranks.send(outgoing, right, 1);
}

TUTTI_LAB_SHIFT(shift)
