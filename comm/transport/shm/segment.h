// HostSegment: the memory that the ranks of one group on one host share, and what lies where in it.
//
// One rank creates it, the others map it (join.h). It holds, for each rank, a RankState, the board of its turns
// (shared/announcements.h) with a slot for small payloads each, a stage for large ones, and for each ordered pair of
// ranks and lane a ring (ring.h). It is sparse: memory that is never touched is never taken.
//
// "index" counts the ranks in the segment, 0 .. ranks-1, in the order of their ranks.
// Thread-safety: each field says which rank writes it; all others read.
#pragma once

#include <tutti/comm/transport/doorbell.h>
#include <tutti/comm/transport/shm/shared_file.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::comm {

inline constexpr std::size_t kLine = 64;                 // a cache line
inline constexpr std::size_t kTurns = 64;                // operations whose announcements are kept
inline constexpr std::size_t kSlotBytes = 32 * 1024;     // the longest message without a stage
inline constexpr std::size_t kStageBytes = 1024 * 1024;  // reused by a rank's long operations
inline constexpr std::size_t kAllocations = 64;          // registered buffers per rank

/// One registered buffer of a rank, for others to open. Written by its owner; `id` last, and 0 first when it ends.
struct AllocationEntry {
  std::atomic<std::uint64_t> id;  // never used twice; 0: none
  std::uint64_t bytes;
  std::int32_t descriptor;
};

/// What a rank publishes to the others of its host. Each group of fields that are read together has a line of its own.
struct RankState {
  alignas(2 * kLine) std::atomic<std::uint32_t> sleepers;  // its threads that sleep, or are about to
  std::atomic<std::uint32_t> rung;                         // written by all: its doorbell has been rung
  alignas(kLine) std::atomic<std::uint32_t> closed;        // it has left the group
  std::atomic<std::uint32_t> gave_up;    // an operation has failed here: its buffers are its own again
  std::atomic<std::int32_t> last_cache;  // last_cache_of_process(), less kUnknownCache; 0 until it is known
  std::atomic<std::int32_t> pid;
  alignas(kLine) DoorbellAddress bell;  // written before the rank sleeps for the first time

  // Its progress on stages, as positions: bytes since the group was formed.
  alignas(2 * kLine) std::atomic<std::uint64_t> staged;   // its contribution is there
  alignas(2 * kLine) std::atomic<std::uint64_t> reduced;  // its share of the result is there
  alignas(2 * kLine) std::atomic<std::uint64_t> taken;    // it has read all of it

  alignas(2 * kLine) std::atomic<std::uint64_t> finished;  // the last turn whose announcements and slots it has read
  alignas(2 * kLine) std::array<AllocationEntry, kAllocations> allocations;
};

/// A rank's announcement of one operation: what its peers compare with their own, and 24 bytes of payload, in one line.
struct alignas(kLine) Turn {
  std::atomic<std::uint64_t> number;  // of this turn, from 1; written last
  std::uint64_t seq;
  std::uint64_t count;
  std::int32_t root;
  std::uint8_t op;
  std::uint8_t dtype;
  std::uint8_t reduce_op;
  std::uint8_t marks;
  std::uint64_t history;  // a digest of all announcements up to and with this one
  union {
    std::array<std::byte, 24> payload;
    std::array<std::uint64_t, 2> memory;
  };

  // Marks. What the operation has in memory[0] is registered, and lies there; that in memory[1]: shifted by one.
  static constexpr std::uint8_t kHasMemory = 0x01;
  static constexpr std::uint8_t kStreamed = 0x80;  // this rank publishes the operation's data by non-temporal stores
};
static_assert(sizeof(Turn) == kLine);

class HostSegment {
 public:
  /// What others need to open it; travels through the store.
  struct Address {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
    std::uint64_t nonce = 0;
  };

  /// Throws System.
  static HostSegment create(int ranks);
  /// Throws System if it cannot be mapped, Protocol if it is not the segment with this nonce and number of ranks.
  static HostSegment open(const Address& address, int ranks);

  int ranks() const { return ranks_; }
  Address address() const;

  RankState& state(int index) const { return reinterpret_cast<RankState*>(states_)[index]; }
  Turn& turn(int index, std::uint64_t number) const {
    return reinterpret_cast<Turn*>(turns_)[static_cast<std::size_t>(index) * kTurns + number % kTurns];
  }
  std::byte* slot(int index, std::uint64_t number) const {  // kSlotBytes
    return slots_ + (static_cast<std::size_t>(index) * kTurns + number % kTurns) * kSlotBytes;
  }
  std::byte* stage(int index, std::uint64_t position) const {
    return stages_ + static_cast<std::size_t>(index) * kStageBytes + position % kStageBytes;
  }

  /// The memory of the ring from one rank to another on lane 0, 1 or 2: ring_bytes() of it.
  std::byte* ring(int from, int to, int lane) const;
  std::size_t ring_bytes() const { return ring_bytes_; }

 private:
  HostSegment(int ranks, SharedFile file);
  static std::size_t ring_bytes_for(int ranks);
  static std::size_t bytes_for(int ranks);

  int ranks_;
  std::size_t ring_bytes_;
  SharedFile file_;
  std::byte* states_;
  std::byte* turns_;
  std::byte* slots_;
  std::byte* stages_;
  std::byte* rings_;
};

}  // namespace tutti::comm
