// Shows what came from outside in error texts and logs: never raw, and no more lines than a disk can bear.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::comm {

/// The first `limit` bytes as "47 45 54 20 (\"GET \")", with ", ..." when there are more; "no bytes" for none.
std::string quote_bytes(std::span<const std::byte> bytes, std::size_t limit = 16);

/// Control characters and non-ASCII bytes become '?'; longer texts are cut at `limit` and end in "...".
std::string printable(std::string_view text, std::size_t limit = 512);

/// 16 hex digits with 0x.
std::string hex(unsigned long long value);

/// Logs connections that were refused, at a limited rate: the first lines of each period are logged (level Warn), the
/// rest are counted, and the next event after the period logs the count. Not thread-safe.
class StrangerLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kLinesPerPeriod = 100;
  static constexpr std::chrono::seconds kPeriod{10};

  /// `prefix` begins its lines: "store: ".
  explicit StrangerLog(std::string prefix = "store: ") : prefix_(std::move(prefix)) {}

  void tell(const std::string& line, Clock::time_point now = Clock::now());

  /// Of one that closed before its handshake was done. A rank that has just ended, and a prober, close without a word,
  /// which is logged at level Info: another secret shows in a proof that is wrong.
  void tell_of_leaver(const std::string& line, std::span<const std::byte> sent);

 private:
  const std::string prefix_;
  Clock::time_point period_began_{};
  int lines_ = 0;  // of this period
  std::uint64_t untold_ = 0;
};

}  // namespace tutti::comm
