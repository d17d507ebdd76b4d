// Who comes to an elastic job when the others have just finished, and waits for them in vain. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::tools {

struct Attendance {
  bool running = true;
  int since = 0;     // the generation in which it has had its first place
  int entered = -1;  // of a rank that has finished: the last generation that it has entered; -1: none
};

struct LateRanks {
  std::vector<std::size_t> late;  // their places, in order of rank
  std::size_t finished = 0;       // the place of one that has finished without them
};

/// The members of generation `generation`, in order of rank. A rank that has finished without entering it never will,
/// and who has its first place there would wait for it. Nobody is late while another rank runs: that one may be about
/// to enter, or to finish, too.
LateRanks late_ranks(const std::vector<Attendance>& members, int generation);

}  // namespace tutti::tools
