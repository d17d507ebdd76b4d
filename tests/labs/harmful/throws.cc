// Throws an exception of its own.
#include <tutti/tools/labs/lab.h>

#include <stdexcept>
#include <string>

using namespace tutti::labs;

void barrier(Ranks& ranks) { throw std::runtime_error("rank " + std::to_string(ranks.rank()) + " has had enough"); }

TUTTI_LAB_BARRIER(barrier)
