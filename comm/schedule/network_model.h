// Network model: what messages and arithmetic take, by alpha, beta and gamma, or by measured curves.
//
// A message of m bytes takes alpha + m beta, or what a measured curve says; reducing m bytes takes m gamma; a rank
// sends one message and receives one message at a time; copying within a rank costs nothing.
//
// Thread-safety: values and pure functions.
#pragma once

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

/// The default values are those of a 25 Gbit/s Ethernet between current machines, in round numbers.
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
  /// The same where ranks exchange messages in pairs, and where one rank sends and the other waits for it: which
  /// rank wakes which, and which share a CPU meanwhile, decides more than bytes do where ranks outnumber CPUs.
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

}  // namespace tutti::comm
