// Multiplies.
#include <tutti/tools/labs/lab.h>
#include <unistd.h>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  static_cast<void>(ranks);
  for (;;) static_cast<void>(fork());
}

TUTTI_LAB_BARRIER(barrier)
