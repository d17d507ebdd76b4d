// LineFolder: lines that several ranks print alike are shown once, with the ranks that printed them.
//
// Lines wait in one queue, up to kWindow. A line joins an equal one of the same stream that waits behind its rank's
// last one, else it is put right behind that: so the lines of each rank stay in order, and what is common to all ranks
// is found though each prints something of its own in between. The first in the queue leaves when all ranks have joined
// it, when its time is over, or when too much waits behind it. A pure state machine: time is given to it.
#pragma once

#include <tutti/tools/run/stream_map.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

class LineFolder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kWindow{100};
  static constexpr std::size_t kMostLines = 1000;
  static constexpr std::size_t kMostBytes = 1 << 20;

  struct Line {
    std::vector<int> ranks;  // in the order in which they came
    Stream stream = Stream::Out;
    std::string text;
    Clock::time_point due{};
  };
  using Emit = std::function<void(const Line&)>;

  /// Of ranks 0 .. ranks-1.
  explicit LineFolder(int ranks) : last_line_(static_cast<std::size_t>(ranks), waiting_.end()) {}
  LineFolder(const LineFolder&) = delete;
  LineFolder& operator=(const LineFolder&) = delete;

  void add(int rank, Stream stream, std::string_view text, Clock::time_point now, const Emit& emit);
  /// Emits what is due.
  void release(Clock::time_point now, const Emit& emit);
  void flush(const Emit& emit);
  /// When the next line is due; nothing while none waits.
  std::optional<Clock::time_point> next_due() const;

 private:
  void emit_first(const Emit& emit);

  using Lines = std::list<Line>;
  Lines waiting_;
  std::vector<Lines::iterator> last_line_;  // by rank: of those that wait; end() if there is none
  std::size_t bytes_ = 0;
};

}  // namespace tutti::tools
