// Ends its process, with status 0, in the hope that this looks like success.
#include <tutti/tools/labs/lab.h>

#include <cstdlib>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  static_cast<void>(ranks);
  std::exit(0);
}

TUTTI_LAB_BARRIER(barrier)
