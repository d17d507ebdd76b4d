// Follows a null pointer.
#include <tutti/tools/labs/lab.h>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  volatile int* nowhere = nullptr;
  *nowhere = ranks.rank();
}

TUTTI_LAB_BARRIER(barrier)
