// Everybody receives first, and nobody sends: it hangs with every length.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int p = ranks.world_size();
  const int right = (ranks.rank() + 1) % p;
  const int left = (ranks.rank() - 1 + p) % p;
  ranks.recv(incoming, left);
  ranks.send(outgoing, right);
}

TUTTI_LAB_SHIFT(shift)
