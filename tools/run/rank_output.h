// What one rank prints: read from its pipes, cut into lines, labelled and shown, and written to log files.
//
// Used from one poll loop; nothing here has a thread. Lines are written whole, so two ranks never share one. A reader
// that is slow makes the ranks wait (their pipes fill up), it costs the launcher no memory; one that has gone away
// makes the ranks see a closed pipe, as they would without a launcher.
#pragma once

#include <poll.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/output.h>
#include <tutti/tools/run/rank_environment.h>

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::tools {

/// How lines of ranks look on the console: "[rank 1] text", or with the host "[node7/1] text".
class LinePrinter {
 public:
  /// Of the part of a job on this host. Borrows the console.
  LinePrinter(const LaunchOptions& options, const JobEnvironment& job, Console& console);
  virtual ~LinePrinter() = default;

  /// Queues a line, given without its end.
  virtual void print(int local_rank, Stream stream, std::string_view line);
  /// A line that the next one replaces, on a terminal; with its label, and control characters as '?'.
  void print_live(int local_rank, Stream stream, std::string_view line);
  /// Bytes as they are.
  void pass(Stream stream, std::string_view bytes) { sink(stream).push(bytes); }

  void note_log_error(int error) { console_.note_log_error(error); }

  void flush();  // erases the live line

  /// False if a rank of this host has told this cause of a failure before.
  bool is_news(std::string cause) { return told_.insert(std::move(cause)).second; }

  Sink& sink(Stream stream) { return stream == Stream::Out ? console_.out() : console_.err(); }

 private:
  std::string label_of(int local_rank) const;

  const bool labels_;
  const int first_rank_;
  std::string before_rank_;       // "rank " or "node7/"
  std::set<std::string> told_{};  // causes
  Console& console_;
};

/// Both streams of one rank. Owns their read ends. Log files are LOG_DIR/<job id>/attempt_<restart>/<rank>/stdout.log
/// and stderr.log; their folders are made. A job of one rank passes bytes as they come, without a label.
class RankOutput {
 public:
  static constexpr std::size_t kTailLines = 20;

  /// Throws comm::Error{System} if a log file cannot be written.
  RankOutput(const LaunchOptions& options, const JobEnvironment& job, int local_rank, int out_fd, int err_fd,
             LinePrinter& printer);
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// Streams that are open and whose destination is not congested.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// True if the entry was one of ours.
  bool handle(const pollfd& entry);

  bool finished() const { return streams_[0].fd.get() < 0 && streams_[1].fd.get() < 0; }
  /// Takes what is there and closes, even if somebody still holds the other end.
  void finish();

  /// The last lines of both streams, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }
  /// Whether it has printed what the C++ runtime prints of an uncaught comm::Error.
  bool told_uncaught() const { return told_uncaught_; }

 private:
  struct StreamState {
    Stream name;
    comm::Socket fd{};  // closed at the end of the stream
    bool shown = true;
    std::string log_file{};
    comm::Socket log_fd{};
    LineSplitter splitter{};
    bool thrown = false;  // the first of the two lines about an uncaught error has come
  };
  void open_log(StreamState& stream);
  bool read_some(StreamState& stream);
  void close_stream(StreamState& stream);
  void emit(StreamState& stream, std::string_view line, bool live);
  void show(StreamState& stream, std::string_view line);
  bool is_told(StreamState& stream, std::string_view line);
  void remember(std::string_view line);
  void log(StreamState& stream, std::string_view bytes);

  const int local_rank_;
  const bool split_lines_;
  LinePrinter& printer_;
  StreamState streams_[2];
  std::deque<std::string> tail_;
  bool told_uncaught_ = false;
};

}  // namespace tutti::tools
