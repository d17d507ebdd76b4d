// Returns while its own message is still being sent.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int p = ranks.world_size();
  const int right = (ranks.rank() + 1) % p;
  const int left = (ranks.rank() - 1 + p) % p;
  auto sending = ranks.isend(outgoing, right);
  ranks.recv(incoming, left);
}

TUTTI_LAB_SHIFT(shift)
