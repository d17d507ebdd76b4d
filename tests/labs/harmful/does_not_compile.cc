// A word is misspelt.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  for (int rank = 0; rank < ranks.wrold_size(); ++rank) ranks.send(std::span<const char>(), rank);
}

TUTTI_LAB_BARRIER(barrier)
