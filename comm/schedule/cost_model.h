// Cost model: what a collective takes on an alpha-beta-gamma network, by the closed formulas of the literature.
//
// A message of m bytes takes alpha + m beta, or what a measured curve says; reducing m bytes takes m gamma; a rank
// sends one message and receives one message at a time; copying within a rank costs nothing. simulator.h runs the
// schedules on the same network. Source: Thakur, Rabenseifner, Gropp: Optimization of collective communication
// operations in MPICH. IJHPCA 19 (2005); Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory,
// practice, and experience. CCPE 19 (2007).
//
// Thread-safety: values and pure functions.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::comm {

struct MeasuredMessage {
  double bytes = 0;
  double seconds = 0;
};

/// What was measured at some sizes, rising in bytes. Straight lines in between; before the first one its time, beyond
/// the last one the time grows with the bytes. 0 if there is none.
using MeasuredCurve = std::vector<MeasuredMessage>;
double seconds_on(const MeasuredCurve& curve, double bytes);

/// The default values are those of a 25 Gbit/s Ethernet between current processors, in round numbers.
struct NetworkModel {
  double alpha = 10e-6;     // seconds per message
  double beta = 1 / 3e9;    // seconds per byte on the wire
  double gamma = 1 / 1e10;  // seconds per byte reduced
  /// Per rank: how many times as long its messages (at the slower of their two ends) and its arithmetic take; ranks
  /// beyond the end of the list take 1. The formulas know nothing of it, the simulator does.
  std::vector<double> slowdown{};
  /// Messages between ranks of one host (Problem::hosts) take these instead.
  double local_alpha = alpha;
  double local_beta = beta;
  /// Messages of one host to others leave one at a time, and arrive one at a time, whichever ranks they are of. As
  /// slowdown, for the simulator only.
  bool hosts_share_a_port = false;
  /// What messages took that were measured, all ranks at it: takes the place of alpha and beta, local or not, if not
  /// empty. Each rank sends to the next one and receives from the one before.
  MeasuredCurve measured{};
  /// The same where ranks exchange messages in pairs, and where one rank sends and the other waits for it: what wakes
  /// whom, and which ranks share a processor meanwhile, decides more than bytes do where ranks outnumber processors.
  /// Empty: like `measured`.
  MeasuredCurve exchanges{};
  /// Exchanges with the partner of the exchange before, which is still awake. Empty: like `exchanges`.
  MeasuredCurve repeats{};
  MeasuredCurve hops{};
  /// Reducing whole vectors of so many bytes, all ranks at it; takes the place of gamma. Long ones leave the caches.
  MeasuredCurve sums{};
  /// Seconds that every collective takes once, whatever it does: until all ranks are awake. For the formulas only.
  double startup = 0;

  double message_seconds(double bytes, bool is_local = false) const;
};

/// Seconds until the last rank is done, or nothing if there is no formula for this algorithm and operation (messages
/// have none).
///
/// Where messages were measured, those that are pieces of a long vector pay what a byte costs in messages of the p-th
/// part of it, if that is more, and sums what they cost in the whole vector: long vectors do not fit into caches.
///
/// Exact (equal to the simulation) on a network without slowdown, shared ports, measured messages or startup, where
/// all chunks have the same length and every message is one segment:
///  - for ring, bruck, dissemination, direct, pairwise, linear and recursive_doubling (all_reduce: any world size)
///    always, but for reduce_scatter by direct;
///  - for chain with segments of equal length;
///  - for binomial, rabenseifner and recursive_halving in worlds of a power of two.
/// Else it is an estimate; segments of anything but chain and double_tree are not priced. van_de_geijn's is an upper
/// bound in worlds of a power of two, and near the simulation in others; hierarchical ones are near it where hosts are
/// even; double_tree's and direct's for reduce_scatter are within a factor of two.
std::optional<double> predicted_seconds(const algorithms::Problem& problem, std::size_t element_bytes,
                                        std::string_view algorithm, const NetworkModel& network);

/// What no algorithm can beat, whatever overlaps: the greatest of the bounds on latency (lg p alpha), on the bytes that
/// must pass the port of some rank, and on arithmetic. Each of these alone is reached by some algorithm.
double lower_bound_seconds(const algorithms::Problem& problem, std::size_t element_bytes, const NetworkModel& network);

}  // namespace tutti::comm
