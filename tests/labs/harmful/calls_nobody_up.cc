// Opens a connection to elsewhere.
#include <sys/socket.h>
#include <tutti/tools/labs/lab.h>

#include <cstdlib>

using namespace tutti::labs;

void barrier(Ranks& ranks) {
  static_cast<void>(ranks);
  if (socket(AF_INET, SOCK_STREAM, 0) < 0) std::abort();
}

TUTTI_LAB_BARRIER(barrier)
