// Lab deadlock: a program that has passed its author's tests, and hangs. The text is in text.md; `tutti lab check
// deadlock` grades.

#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <span>

using tutti::labs::Ranks;

// `incoming` becomes the `outgoing` of the rank to the left: rank 1's that of rank 0, ..., rank 0's that of the last.
template <typename T>
void shift(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming) {
  const int right = (ranks.rank() + 1) % ranks.world_size();
  const int left = (ranks.rank() + ranks.world_size() - 1) % ranks.world_size();
  ranks.send(outgoing, right);
  ranks.recv(incoming, left);
}

TUTTI_LAB_SHIFT(shift)
