// Dissemination: after the round of distance d a rank has heard of the 2d ranks that end with itself.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  const int p = ranks.world_size();
  for (int distance = 1; distance < p; distance *= 2) {
    ranks.sendrecv(std::span<const char>(), (ranks.rank() + distance) % p, std::span<char>(),
                   (ranks.rank() - distance + p) % p);
  }
}

TUTTI_LAB_BARRIER(barrier)
