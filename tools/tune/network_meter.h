// NetworkMeter: measures the parameters of the cost model between the ranks of a group.
//
// What is measured, none of it an operation that the model is to predict: a collective of a group of one, which has no
// messages (startup); all_gathers by a ring (messages, each rank to the next), by recursive doubling (exchanges in
// pairs) and in groups of two (repeated exchanges); a reduction to a root and a broadcast from it (hops, one rank
// waiting for the other); sums by all ranks at once, of vectors that fit into caches and of others.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/tools/tune/meter.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace tutti::tools {

class NetworkMeter {
 public:
  /// The group must outlive the meter.
  explicit NetworkMeter(comm::ProcessGroup& group);
  NetworkMeter(const NetworkMeter&) = delete;
  NetworkMeter& operator=(const NetworkMeter&) = delete;

  /// A batch of each; some 0.3 s.
  void measure();

  /// A batch of each that is longer than `above` and no longer than `up_to` bytes (the startup: 0 bytes). A machine may
  /// change its speed while measure() runs: what is to be compared with some of this is measured right after that.
  void measure(double above, double up_to);

  /// By all batches so far; equal on all ranks.
  comm::NetworkModel model() const;

 private:
  struct Sized {
    double bytes;  // of a message, or of a sum; 0 of the startup
    Meter meter;
  };

  void add_startup();
  void add_messages(std::size_t whole_bytes);
  void gather(comm::ProcessGroup& group, std::size_t count);
  void add_hops(std::size_t bytes);
  void add_sums(std::size_t bytes);

  comm::ProcessGroup& group_;
  std::vector<float> memory_;
  std::vector<float> incoming_;                // of a sum: stays in the cache, as the executor's bounce buffer does
  std::unique_ptr<comm::ProcessGroup> alone_;  // of this rank
  std::unique_ptr<comm::ProcessGroup> pair_;   // of this rank and a neighbour; null if some have none
  std::vector<Sized> startup_;                 // one
  std::vector<Sized> messages_;
  std::vector<Sized> exchanges_;
  std::vector<Sized> repeats_;
  std::vector<Sized> hops_;
  std::vector<Sized> sums_;
  std::vector<Sized*> by_size_;  // all of these: short messages go slower for a while after long ones
};

}  // namespace tutti::tools
