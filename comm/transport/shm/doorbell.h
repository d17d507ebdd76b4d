// Doorbell: wakes a rank of this host that sleeps in the kernel, by a datagram to a socket without a file name.
//
// Only sleepers are rung: who waits first says so in the segment (RankState::sleepers), then looks once more, then
// sleeps; who has done something first makes it visible, then looks for sleepers. A bell that a stranger rings costs
// the rank one look.
// Thread-safety: ring() may be called by any thread; the rest by one at a time.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::comm {

class Doorbell {
 public:
  /// The bell of rank `index` in the segment with this nonce. Throws System.
  Doorbell(std::uint64_t nonce, int index);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Readable when the bell has been rung.
  int descriptor() const { return descriptor_; }

  /// Takes all datagrams that have come.
  void silence() noexcept;

  /// Wakes the rank with this index; false if it has no bell (any more). Never blocks.
  bool ring(int index) noexcept;

 private:
  const std::uint64_t nonce_;
  int descriptor_ = -1;
};

}  // namespace tutti::comm
