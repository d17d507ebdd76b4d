// LinePrinter: how lines of ranks look on the console: with a label, as JSON, folded where ranks say the same.
//
// A JSON object has "time" (UTC), "host", "rank" and "local_rank" ("ranks" instead where several are folded), "stream"
// and "text"; bytes that are no UTF-8 become U+FFFD. Used from one poll loop. Borrows the console.
#pragma once

#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/output.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::tools {

/// Lines that several ranks print alike are shown once, with the ranks that printed them. Lines wait in one queue, up
/// to kWindow. A line joins an equal one of the same stream that waits behind its rank's last one, else it is put right
/// behind that: so the lines of each rank stay in order, and what is common to all ranks is found though each prints
/// something of its own in between. The first in the queue leaves when all ranks have joined it, when its time is over,
/// or when too much waits behind it. A pure state machine: time is given to it.
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

/// What stands before each line of a rank: a template with the names of torchrun's
/// TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE (Python's string.Template), and some more. The values of ${rank},
/// ${local_rank}, ${node}, ${host}, ${role_name}. Texts, for several ranks can share a line.
struct LabelFields {
  std::string rank;
  std::string local_rank;
  std::string node;
  std::string host;
  std::string role_name;
};

inline constexpr char kLabelOfOneHost[] = "[rank ${rank}] ";
inline constexpr char kLabelOfSeveralHosts[] = "[${host}/${rank}] ";

/// "${name}" becomes its value and "$$" a dollar. Throws std::invalid_argument naming what is unknown, and what is not.
std::string expand_label(const std::string& text, const LabelFields& fields);

class LinePrinter {
 public:
  using Clock = LineFolder::Clock;

  /// Of the part of a job on this host. Borrows all three.
  LinePrinter(const LaunchOptions& options, const JobEnvironment& job, Console& console);

  /// Queues a line, given without its end.
  void print(int local_rank, Stream stream, std::string_view line);
  /// A line that the next one replaces, on a terminal; with its label, and control characters as '?'. Not as JSON.
  void print_live(int local_rank, Stream stream, std::string_view line);
  /// False if a rank of this host has told this cause of a failure before.
  bool is_news(std::string cause) { return told_.insert(std::move(cause)).second; }
  /// Bytes as they are.
  void pass(Stream stream, std::string_view bytes) { sink(stream).push(bytes); }

  /// Shows what has waited long enough for other ranks to say the same.
  void release(Clock::time_point now) { folder_.release(now, show_folded_); }
  void flush();  // and erases the live line
  std::optional<Clock::time_point> next_due() const { return folder_.next_due(); }

  Sink& sink(Stream stream) { return stream == Stream::Out ? console_.out() : console_.err(); }

 private:
  std::string label_of(const std::vector<int>& local_ranks) const;
  std::string json_of(const std::vector<int>& local_ranks, Stream stream, std::string_view line) const;
  void show(const std::vector<int>& local_ranks, Stream stream, std::string_view line);

  const LaunchOptions& options_;
  const JobEnvironment& job_;
  const std::string template_;  // of the label; "": none
  const std::string host_;
  Console& console_;
  LineFolder folder_;
  const LineFolder::Emit show_folded_;
  std::set<std::string> told_;  // causes
};

}  // namespace tutti::tools
