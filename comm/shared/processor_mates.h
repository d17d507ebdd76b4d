// ProcessorMates: who runs on the same processor as this rank, where ranks outnumber processors.
//
// Who waits there gives way at once: another rank may have something to do. But where two share each processor and both
// wait for somebody on another one, giving way leads to a rank that gives way again: two switches of the processor,
// each of which takes longer than the news that both wait for. So who knows that its mate waits, too, looks on instead.
//
// Where ranks wait once in an operation that makes more operations a second, but half of the calls longer: who comes
// second has nothing to wait for, and goes on to the next operation before it gives way. So it is for those in which
// ranks wait for each other again.
//
// Thread-safety: one thread at a time. Every rank tells its own processor, and all read the others'.
#pragma once

#include <tutti/comm/transport/shm/segment.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace tutti::comm {

class ProcessorMates {
 public:
  /// `segment` must outlive this.
  ProcessorMates(const HostSegment& segment, int self) : segment_(segment), self_(self) {}

  /// This rank runs on processor `here`; the others take it to stay there.
  void tell(int here) {
    std::atomic<std::int32_t>& told = segment_.state(self_).processor;
    if (told.load(std::memory_order_relaxed) != here + 1) told.store(here + 1, std::memory_order_relaxed);
  }

  /// Where all ranks have told that they are, by index; -1: not yet.
  std::vector<int> processors() const {
    std::vector<int> all;
    for (int index = 0; index < segment_.ranks(); ++index) all.push_back(processor_of(index) - 1);
    return all;
  }

  /// Looks until `is_ready()`, for some microseconds, if ranks share processors in pairs and has_arrived(this one's
  /// mate) where this rank waits. False: it is time to give way.
  template <typename Ready, typename HasArrived>
  bool look_on(Ready is_ready, HasArrived has_arrived) const {
    const int mate = mate_of(self_);
    if (mate < 0 || !has_arrived(mate) || !all_are_paired()) return false;
    for (int looks = kLooks; looks > 0; --looks) {
      if (is_ready()) return true;
      __builtin_ia32_pause();
    }
    return false;
  }

 private:
  static constexpr int kLooks = 200;

  int processor_of(int index) const { return segment_.state(index).processor.load(std::memory_order_relaxed); }

  /// The only one; -1: there is none, or more.
  int mate_of(int index) const {
    const int processor = processor_of(index);
    int mate = -1;
    for (int other = 0; other < segment_.ranks(); ++other) {
      if (other == index || processor_of(other) != processor) continue;
      if (mate >= 0) return -1;
      mate = other;
    }
    return mate;
  }

  bool all_are_paired() const {
    for (int index = 0; index < segment_.ranks(); ++index)
      if (mate_of(index) < 0) return false;
    return true;
  }

  const HostSegment& segment_;
  const int self_;
};

}  // namespace tutti::comm
