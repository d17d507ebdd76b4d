// The words in which the cost model's formulas are written.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/schedule/network_model.h>

#include <cstddef>
#include <string_view>

namespace tutti::comm {

double ceil_log2(double value);

/// Whether no rank has anything to tell another.
bool is_idle(const Problem& problem);

/// Some ranks, the links between them, and n bytes a rank.
struct Terms {
  Terms(const NetworkModel& model, bool local, double ranks, double bytes, double segment);

  const NetworkModel* network;
  bool is_local;
  double p;              // world size
  double n;              // bytes of a rank's `count` elements; of the longest block of a v-form, which holds up others
  double segment_bytes;  // 0: no limit
  double share = 0;      // bytes of the p-th part of a rank's longest buffer
  double whole = 0;      // bytes of that buffer
  double lg_p;           // rounded up
  double q;              // largest power of two <= p
  double lg_q;           // exact

  double message(double bytes) const;
  /// Two ranks send each other so much.
  double exchange(double bytes) const;
  /// The same two ranks, once more.
  double repeat(double bytes) const;
  /// One rank sends, the other waits for it.
  double hop(double bytes) const;
  double reduction(double bytes) const;
  double segments_of(double bytes) const;
  /// Handing the vector of a rank beyond q to a neighbour, which adds it, and handing the result back.
  double fold() const;
  /// The messages of a root that hands the upper half of p blocks on, then the upper half of what it has kept, ...
  double halving_messages(double block) const;
  /// Rounds in which a rank that has 1, 2, 4, ... of p blocks gets as many again, or all that are missing.
  double doubling_messages(double block) const;
};

/// With the segments of `algorithm`; those that the problem says without one.
Terms terms_of(const Problem& problem, std::size_t element_bytes, const NetworkModel& network,
               std::string_view algorithm = {});

}  // namespace tutti::comm
