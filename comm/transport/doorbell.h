// Doorbell: wakes the threads of a rank that sleep in poll(2), by a byte in a pipe.
//
// Only sleepers are rung: a thread that waits first counts itself as a sleeper where the ringer looks, then polls once
// more, then sleeps; a thread that has done something first makes it visible, then looks for sleepers.
// A thread that finds the bell rung silences it, and rings it again if others of its rank sleep beside it.
// Another rank of this host opens the pipe through /proc, which the kernel allows to processes that may also map this
// rank's shared memory, and to no other user's. Thread-safety: any thread may call anything.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::comm {

/// Where another process finds a bell.
struct DoorbellAddress {
  std::int32_t pid;
  std::int32_t descriptor;
  std::uint64_t inode;  // of the pipe: by then another file may have the descriptor, or another process the pid
};

class Doorbell {
 public:
  /// Throws System.
  Doorbell();
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Readable when the bell has been rung.
  int descriptor() const { return ends_[0]; }
  DoorbellAddress address() const;

  /// Makes descriptor() readable until silence(). Never blocks.
  void ring() noexcept;
  /// The same for the bell of another process; false if it is not there any more.
  static bool ring(const DoorbellAddress& other) noexcept;

  void silence() noexcept;

 private:
  std::array<int, 2> ends_;  // of the pipe: to read from, to write to
};

}  // namespace tutti::comm
