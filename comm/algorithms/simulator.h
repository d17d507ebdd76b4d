// Simulator: when each rank of a collective is done on an alpha-beta-gamma network (cost_model.h), by running the
// schedules of all ranks from event to event. It moves no data; checker.h says whether the schedules are right.
//
// The network: a message passes when both its ends are ready (as in the checker, nothing is buffered), the sender sends
// no other message and the receiver receives no other; it takes (alpha + bytes beta) times the slowdown of its slower
// end. Between ranks of one host (Problem::hosts) alpha and beta are the local ones. Of several messages that a rank
// could pass, the one that has been ready longest goes first; of equals, the one whose step comes first. A rank reduces
// what it received after the message has passed, one thing at a time, while its ports are free for others. Messages
// from one rank to another keep their order. Copies take no time.
//
// Thread-safety: pure functions; the same arguments give the same result, bit for bit.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/cost_model.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// One message on its way.
struct Transfer {
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;
  double start = 0;  // seconds
  double end = 0;
};

struct Simulation {
  std::vector<double> finishes;  // of each rank: seconds until its last step is complete

  /// The last rank's.
  double finish() const;
};

/// Called for each message when it has passed, in the order of their ends.
using TransferObserver = std::function<void(const Transfer&)>;

/// Called for each step of each rank when it is complete, in an order in which they can be performed one after the
/// other: a message's Send comes before its Recv, and before what overwrites the Send's source.
using CompletionObserver = std::function<void(int rank, std::uint32_t step, double seconds)>;

/// schedules[r] is rank r's, on a host of its own. Throws InvalidArgument as StepGraph, and if the schedules wait for
/// each other (rank and step are named). Memory: some 200 bytes a step.
Simulation simulate(std::span<const Schedule> schedules, std::size_t element_bytes, const NetworkModel& network,
                    const TransferObserver& observer = {}, const CompletionObserver& on_completion = {});

/// The schedules that select() gives for `algorithm` and `problem` (its rank is ignored). Where the algorithm rotates
/// (algorithms.h) one is built for all; if no rank is slowed down either, all ranks do the same at the same time, and
/// one is run for all.
/// `observer` needs every message and so runs every rank. Throws as select() and the function above.
Simulation simulate(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                    const NetworkModel& network, const TransferObserver& observer = {});

}  // namespace tutti::comm
