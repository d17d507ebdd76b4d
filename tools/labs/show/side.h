// Side: a Play made ready for the page: bounded, checked, in whole steps of one slider. Internal to tools/labs/show.
//
// A Play comes from a submission's run: ranks, buffers and times that cannot be are left out here, and counted, so that
// what writes the page need not doubt anything. Pure functions.
#pragma once

#include <tutti/tools/labs/play.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tutti::labs::show {

inline constexpr std::size_t kMostCells = 32;        // shown of one buffer
inline constexpr std::size_t kMostMessageCells = 4;  // shown of what a message carries

/// What stands in one element.
struct Cell {
  std::string value;  // "30"; "?" where nobody has written yet
  std::string who;    // "0-2 4", "all", "nobody", "1 x2"; "unset", "on its way"
  std::string times;  // a character for each rank: '0', '1', '2', '+'
};

/// The different cells of a page; elements name them by their index.
class Cells {
 public:
  explicit Cells(int world_size) : world_size_(world_size) {}
  int add(std::uint64_t word);
  const std::vector<Cell>& all() const { return cells_; }
  const Cell& at(int cell) const { return cells_[static_cast<std::size_t>(cell)]; }

 private:
  int world_size_;
  std::vector<Cell> cells_;
  std::map<std::uint64_t, int> index_;
};

/// The moments at which something begins or ends, in seconds; what is as good as equal is one.
class Stops {
 public:
  /// Of all `plays` that are not null.
  explicit Stops(const std::vector<const Play*>& plays);
  const std::vector<double>& seconds() const { return seconds_; }
  int last() const { return static_cast<int>(seconds_.size()) - 1; }
  int at(double seconds) const;  // the nearest one; kNever: last() + 1

 private:
  std::vector<double> seconds_;
};

struct Shown {
  PlayEvent::Kind kind{};
  int rank = 0;
  int peer = -1;
  int tag = 0;
  std::size_t bytes = 0;
  double begin = 0, end = 0;   // seconds; or kNever
  int first = 0, last = 0;     // stops: under way from `first` until before `last`
  std::vector<int> carries{};  // Send: the first cells of the message
  std::string text{};
};

/// From stop `at` on elements [offset, offset + cells.size()) of a buffer hold these cells.
struct Change {
  int at = 0;
  int rank = 0;
  int buffer = 0;
  std::size_t offset = 0;
  bool replaces = false;  // the whole buffer, which may change its length
  std::vector<int> cells{};
};

struct ShownBuffer {
  std::string name;
  std::vector<std::vector<int>> initial;  // [rank]: cells
};

struct RankLine {
  std::size_t sent = 0, received = 0;
  std::size_t bytes_sent = 0;
  double waiting = 0;  // seconds, before its end, in which nothing passed and nothing was added
  double finish = 0;   // or kNever
};

struct Side {
  const Play* play = nullptr;
  std::vector<Shown> events;  // by beginning
  std::vector<ShownBuffer> buffers;
  std::vector<Change> changes;  // by stop
  std::vector<RankLine> ranks;
  double end = 0;                    // of the last thing that ended
  std::vector<std::string> remarks;  // sentences: what is not shown
};

Side make_side(const Play& play, const Stops& stops, Cells& cells);

/// An element of the student's result that is not what the library's is.
struct Difference {
  int buffer = 0;  // of the student's
  int rank = 0;
  std::size_t index = 0;
  int found = -1;  // cells; -1: nothing there
  int expected = 0;
};
/// In the buffers that both have by name, but for the submission's own.
std::vector<Difference> differences(const Side& student, const Side& library);

}  // namespace tutti::labs::show
