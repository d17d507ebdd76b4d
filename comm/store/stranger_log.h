// StrangerLog: tells of connections that were shown out, but of no more than the reader of a log can want.
//
// A port scan or a broken client must not fill a disk: the first lines of each period are logged (level Warn), the rest
// are counted, and the count is told when the period is over and something happens again. Internal to comm.
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

  /// Of one that went before its handshake was done. Who has just ended, and a prober, leave without a word, which is
  /// told at level Info: another secret shows in a proof that is wrong.
  void tell_of_leaver(const std::string& line, std::span<const std::byte> sent, Clock::time_point now);

 private:
  const std::string prefix_;
  Clock::time_point period_began_{};
  int lines_ = 0;  // of this period
  std::uint64_t untold_ = 0;
};

}  // namespace tutti::comm
