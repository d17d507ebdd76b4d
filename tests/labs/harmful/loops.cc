// Never ends, and never waits.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  volatile int turns = 0;
  while (ranks.world_size() > 0) turns = turns + 1;
}

TUTTI_LAB_BARRIER(barrier)
