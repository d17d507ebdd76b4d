// Distance: whether what another rank has just written is further away from this one than memory is.
//
// A line that another processor has written comes out of that one's caches: soon where the two have one in common
// (some 60 ns), late from another socket or chiplet (160 ns and more), which may also send few of them at a time: on a
// processor of several chiplets a copy then makes 2 GB/s. What was written past the caches is read from memory, by the
// same two at 8 GB/s; but near each other they lose by that, so it has to be known, and a virtual processor may move.
// Of what is far, the speed of copies decides (copy_speed.h).
//
// Each load of a line that the other writes again and again is timed. A majority of many samples decides: where memory
// is busy a quarter of those of a near line are slow, too. The limit lies between the two, a memory's latency;
// TUTTI_FAR_LINE_NS replaces it (0: everybody is far, a large number: nobody), and then decides alone.
//
// Thread-safety: one thread at a time. Source: the latencies and bandwidths of caches in other chiplets as in Velten et
// al., "Memory Performance of AMD EPYC Rome and Intel Cascade Lake SP Server Processors" (ICPE 2022).
#pragma once

#include <tutti/comm/transport/shm/majority.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti::comm {

class Distance {
 public:
  static constexpr int kSamples = 32;  // by which one kind of sample is ahead when the other is no longer believed

  Distance() : limit_(far_line()), decides_(limit_is_set()) {}
  /// By such a limit alone.
  explicit Distance(std::chrono::nanoseconds limit) : limit_(limit), decides_(true) {}

  /// The line's load(acquire). `seen` is what it held the last time, and becomes what it holds: where nothing was
  /// written since, the line need not have come from anywhere.
  std::uint64_t load(const std::atomic<std::uint64_t>& line, std::uint64_t& seen);

  /// A line that the other had written took so long to come.
  void sample(std::chrono::nanoseconds took);

  bool is_far() const { return far_.says_yes(); }
  /// Whether being far suffices, however fast copies are.
  bool decides() const { return decides_; }

  /// The limit for what load() measures: TUTTI_FAR_LINE_NS, or 120 ns and a look at the clock. Throws InvalidArgument
  /// if the variable is no such number.
  static std::chrono::nanoseconds far_line();

 private:
  static bool limit_is_set();

  const std::chrono::nanoseconds limit_;
  const bool decides_;
  Majority<kSamples> far_;
};

}  // namespace tutti::comm
