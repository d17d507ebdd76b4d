// Cost model: what a collective takes on a network where a message of m bytes takes alpha + m beta and reducing m bytes
// takes m gamma; a rank sends one message and receives one message at a time; copying within a rank costs nothing.
//
// predicted_seconds() is the textbook's estimate, for a choice at once in worlds of any size: table.cc has the terms of
// each algorithm. simulator.h runs the schedules of all ranks on the same network, and is exact. Source: Thakur,
// Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19 (2005); Chan, Heimlich,
// Purkayastha, van de Geijn: Collective communication: theory, practice, and experience. CCPE 19 (2007).
//
// Thread-safety: values and pure functions.
#pragma once

#include <tutti/comm/schedule/schedule.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// The default values are those of a 25 Gbit/s Ethernet between current machines, in round numbers.
struct NetworkModel {
  double alpha = 10e-6;     // seconds per message
  double beta = 1 / 3e9;    // seconds per byte on the wire
  double gamma = 1 / 1e10;  // seconds per byte reduced
  /// Per rank: how many times as long its messages (at the slower of their two ends) and its arithmetic take; ranks
  /// beyond the end of the list take 1. The estimate knows nothing of it, the simulator does.
  std::vector<double> slowdown{};
  /// Messages between ranks of one host (Problem::hosts) take these instead.
  double local_alpha = alpha;
  double local_beta = beta;

  double message_seconds(double bytes, bool is_local = false) const {
    return is_local ? local_alpha + bytes * local_beta : alpha + bytes * beta;
  }
};

/// About how many seconds pass until the last rank is done, or nothing if there is no such algorithm for this operation
/// (messages have none). In worlds of a power of two, of chunks of one length and messages of one segment, this is what
/// the simulator finds for most algorithms; else it is within a factor of 3 of that, but for segments of a few bytes.
std::optional<double> predicted_seconds(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                                        const NetworkModel& network);

/// What no algorithm can beat, whatever overlaps: the greatest of the bounds on latency (lg p alpha), on the bytes that
/// must pass the port of some rank, and on arithmetic. Each of these alone is reached by some algorithm.
double lower_bound_seconds(const Problem& problem, std::size_t element_bytes, const NetworkModel& network);

}  // namespace tutti::comm
