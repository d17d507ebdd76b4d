// What main() of tutti::lab measures: a solution's functions on real ranks, beside the library's.
//
// Collective: all ranks call these with the same arguments; one thread. Times are medians of what the slowest rank
// took; the solution's calls and the library's take turns, so that what else the machine does falls on both.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/labs/lab.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::labs {

struct TimingOptions {
  std::size_t max_bytes = 4 << 20;
  int repetitions = 15;  // of each size; more for short messages
};

struct CollectiveTime {
  std::size_t bytes = 0;
  double seconds = 0;          // the solution's
  double library_seconds = 0;  // 0: the library has no such call
  double ratio = 0;            // median of the turns' ratios
  bool is_right = true;        // on this rank and all others
};

/// alpha and beta of "a message of m bytes takes alpha + m beta" go through these.
struct TimedMessage {
  double bytes = 0;
  double seconds = 0;  // a median
};

struct FittedLine {
  double alpha = 0;        // seconds
  double beta = 0;         // seconds per byte
  double worst_error = 0;  // relative, of a point
};

struct MessageTimes {
  std::vector<TimedMessage> measured;          // by the solution's message_seconds
  std::vector<TimedMessage> library_measured;  // by ours
  FittedLine line;                             // of `measured`
  FittedLine library_line;
};

/// The functions that time_collective() knows, as lab.h's macros name them.
bool is_timed_collective(const std::string& function);

/// Sums of float64 of each length, checked element by element on every rank. Throws what the solution throws.
std::vector<CollectiveTime> time_collective(const std::string& function, comm::ProcessGroup& group, Ranks& ranks,
                                            const TimingOptions& options);

/// The lab `latency`: one-way times between ranks 0 and 1. Needs two ranks.
MessageTimes time_messages(comm::ProcessGroup& group, Ranks& ranks, const TimingOptions& options);

/// Calls the solution's `function` for `type`; false if it registered none.
bool call_solution(const std::string& function, detail::ElementType type, Ranks& ranks, detail::Call& call);

}  // namespace tutti::labs
