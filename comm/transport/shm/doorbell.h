// Doorbell: wakes a rank of this host that sleeps in the kernel, by a datagram to a socket without a file name.
//
// Only sleepers are rung: a rank that waits first marks that in the segment (RankState::sleepers), then polls once
// more, then sleeps; a rank that has done something first makes it visible, then checks for sleepers.
// Other users of the host see the socket's name once it is bound, but cannot guess it before. The kernel drops
// datagrams without the key, which only the segment holds, in the sender's time: a flood of them wakes no rank.
// Thread-safety: ring() may be called by any thread; the rest by one at a time.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::comm {

/// How to ring a bell; lies in the segment.
struct DoorbellAddress {
  std::array<char, 38> name;  // in the abstract name space, without the 0 in front
  std::array<std::uint32_t, 2> key;
};

class Doorbell {
 public:
  /// A bell of a random name and key, which are written to `address`. Throws System.
  explicit Doorbell(DoorbellAddress& address);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Readable when the bell has been rung.
  int descriptor() const { return descriptor_; }

  /// Takes all datagrams that have come.
  void silence() noexcept;

  /// Wakes the rank with this bell; false if it has none (any more). Never blocks.
  bool ring(const DoorbellAddress& other) noexcept;

 private:
  int descriptor_ = -1;
};

}  // namespace tutti::comm
