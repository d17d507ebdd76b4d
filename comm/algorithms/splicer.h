// Splicer: joins schedules of parts of the world to one of the whole world. Internal to comm/algorithms.
//
// What a later schedule does waits for what an earlier one did to the same elements, and for nothing else: while one
// segment is exchanged between hosts the next may still be summed within them.
#pragma once

#include <tutti/comm/algorithms/builder.h>

#include <array>
#include <map>
#include <string>
#include <vector>

namespace tutti::comm::algorithms {

/// Where a spliced schedule's buffers lie in those of the whole.
struct Mapping {
  struct Place {
    BufferId buffer;
    std::size_t offset = 0;
  };
  Place input{BufferId::Input};
  Place output{BufferId::Output};
  Place scratch{BufferId::Scratch};
};

class Splicer {
 public:
  explicit Splicer(std::string algorithm) : builder_(std::move(algorithm)) {}

  /// Appends this rank's `part`, whose rank i is ranks[i] of the world. Copies that the mapping turns into copies onto
  /// themselves are left out. Within `part` the mapping must not make two steps meet that were apart.
  void add(const Schedule& part, const std::vector<int>& ranks, const Mapping& mapping);

  Schedule finish() { return builder_.finish(scratch_count_); }

 private:
  struct Access {
    Slice slice;
    bool writes = false;
    Builder::Index step = 0;
  };

  void wait_for_conflicts(const Access& access, Builder::After& after) const;
  void remember(const Access& access);

  Builder builder_;
  std::size_t scratch_count_ = 0;
  std::array<std::multimap<std::size_t, Access>, 3> accesses_;  // of earlier parts, per buffer, by offset
  std::array<std::size_t, 3> longest_{};
};

}  // namespace tutti::comm::algorithms
