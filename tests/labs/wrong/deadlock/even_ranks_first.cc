// Right, but half of the ranks wait for the other half: two rounds, three if the number of ranks is odd.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int p = ranks.world_size();
  const int right = (ranks.rank() + 1) % p;
  const int left = (ranks.rank() - 1 + p) % p;
  if (ranks.rank() % 2 == 0) {
    ranks.send(outgoing, right);
    ranks.recv(incoming, left);
  } else {
    ranks.recv(incoming, left);
    ranks.send(outgoing, right);
  }
}

TUTTI_LAB_SHIFT(shift)
