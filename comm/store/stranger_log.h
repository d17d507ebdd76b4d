// StrangerLog: logs connections that were refused, at a limited rate.
//
// A port scan or a broken client must not fill a disk: the first lines of each period are logged (level Warn), the rest
// are counted, and the next event after the period logs the count. Internal to comm.
// Thread-safety: none; the owner serialises.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace tutti::comm {

class StrangerLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kLinesPerPeriod = 100;
  static constexpr std::chrono::seconds kPeriod{10};

  /// `prefix` begins its own lines, and those of leavers: "store: ".
  explicit StrangerLog(std::string prefix = "store: ") : prefix_(std::move(prefix)) {}

  void tell(const std::string& line, Clock::time_point now);

  /// Of one that closed before its handshake was done. A rank that has just ended, and a prober, close without a word,
  /// which is logged at level Info: another secret shows in a proof that is wrong.
  void tell_of_leaver(const std::string& line, std::span<const std::byte> sent, Clock::time_point now);

 private:
  const std::string prefix_;
  Clock::time_point period_began_{};
  int lines_ = 0;  // of this period
  std::uint64_t untold_ = 0;
};

}  // namespace tutti::comm
