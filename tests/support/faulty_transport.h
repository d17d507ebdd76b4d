// FaultyTransport: any transport, made to behave as badly as its contract allows. For tests.
//
// What is late: a frame that has arrived is shown only at a later peek(); a read gives part of what is there, or
// nothing; a posted frame leaves after some more calls of flush(), in portions; wait() returns early. So frames of
// different links overtake each other; within a link they stay in order. A link that is asked often enough delivers,
// and wait() does not sleep on what is only being held back: nothing takes long.
//
// What breaks, if wanted: one connection, for good and for both sides, as by a TCP reset.
//
// The seed alone decides what happens to the n-th frame, read and flush of each link; which of them comes first is up
// to the threads. Thread-safety and ownership: as Transport; each transport owns the one it wraps.
#pragma once

#include <tutti/comm/transport/transport.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tutti::comm {

/// Breaks one connection when it has carried `after_frames` frames, of both directions together.
struct ConnectionReset {
  enum class Lane { Collective, Messages, Answers };

  int one = 0;
  int other = 1;
  Lane lane = Lane::Collective;
  std::uint64_t after_frames = 0;
  bool lose_data = false;  // true: what was not read yet is lost, and the last sender notices only when it goes on
};

struct FaultyOptions {
  std::uint64_t seed = 1;
  std::optional<ConnectionReset> reset{};
};

/// What the ranks of one world share. Thread-safety: all methods may be called from any thread.
class FaultyWorld {
 public:
  virtual ~FaultyWorld() = default;

  /// When the connection broke; nothing if it has not carried enough frames yet.
  virtual std::optional<std::chrono::steady_clock::time_point> reset_at() const = 0;
};

struct FaultyTransports {
  std::vector<std::unique_ptr<Transport>> ranks;
  std::shared_ptr<const FaultyWorld> world;
};

/// Wraps the transports of all ranks of one world, given in rank order.
FaultyTransports make_faulty_transports(std::vector<std::unique_ptr<Transport>> ranks, const FaultyOptions& options);

}  // namespace tutti::comm
