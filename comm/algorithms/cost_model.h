// Cost model: what a collective takes on a network, by the closed formulas of the literature.
//
// network_model.h says what the network is; simulator.h runs the schedules on the same one. Source: Thakur,
// Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19 (2005); Chan, Heimlich,
// Purkayastha, van de Geijn: Collective communication: theory, practice, and experience. CCPE 19 (2007).
//
// Thread-safety: pure functions.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/schedule/network_model.h>

#include <cstddef>
#include <optional>
#include <string_view>

namespace tutti::comm {

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
///  - for chain, and for all_reduce by ring, with segments of equal length;
///  - for binomial, rabenseifner and recursive_halving in worlds of a power of two.
/// Else it is an estimate; segments of anything but chain, double_tree and all_reduce by ring are not priced.
/// van_de_geijn's is an upper bound in worlds of a power of two, and near the simulation in others; hierarchical ones
/// are near it where hosts are even; double_tree's and direct's for reduce_scatter are within a factor of two.
std::optional<double> predicted_seconds(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                                        const NetworkModel& network);

/// What no algorithm can beat, whatever overlaps: the greatest of the bounds on latency (lg p alpha), on the bytes that
/// must pass the port of some rank, and on arithmetic. Each of these alone is reached by some algorithm.
double lower_bound_seconds(const Problem& problem, std::size_t element_bytes, const NetworkModel& network);

}  // namespace tutti::comm
