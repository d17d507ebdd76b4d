// What the ranks print: read from their pipes, cut into lines, labelled, and written out without ever blocking.
//
// Used from one poll loop; nothing here has a thread. Lines are written whole, so two ranks never share one. A reader
// that is slow makes the ranks wait (their pipes fill up), it costs the launcher no memory; one that has gone away
// makes the ranks see a closed pipe, as they would without a launcher.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// Cuts a stream of bytes into lines. "\n", "\r\n" and "\r" (a progress bar's) end one; so does kMaxLine bytes.
class LineSplitter {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;
  using OnLine = std::function<void(std::string_view line)>;  // without its end

  void feed(std::string_view bytes, const OnLine& on_line);
  /// The last line, if the stream ended without ending it.
  void finish(const OnLine& on_line);

 private:
  std::string partial_;
  bool after_return_ = false;
  bool skipped_empty_ = false;
};

/// The queue in front of one descriptor of the launcher's own. The descriptor is borrowed and keeps its flags.
class Sink {
 public:
  explicit Sink(int fd);

  void push(std::string_view bytes);
  /// To be called when poll says that the descriptor takes bytes; writes at most what does not block.
  void write_some();

  int fd() const { return fd_; }
  bool colours() const { return colours_; }  // a terminal that is not asked to stay plain
  bool has_bytes() const { return !closed_ && written_ < queue_.size(); }
  bool congested() const { return !closed_ && queue_.size() - written_ > kHighWater; }
  bool closed() const { return closed_; }  // nobody reads it any more

 private:
  static constexpr std::size_t kHighWater = 1 << 20;
  int fd_;
  bool colours_ = false;
  bool closed_ = false;
  std::string queue_;
  std::size_t written_ = 0;
};

/// The launcher's standard output and error; one queue when both are the same file, so that lines stay in order and
/// whole.
class Console {
 public:
  Console();
  Sink& out() { return out_; }
  Sink& err() { return same_ ? out_ : err_; }

  void add_poll_entries(std::vector<pollfd>& entries);
  void handle(const pollfd& entry);
  bool has_bytes() { return out().has_bytes() || err().has_bytes(); }

 private:
  Sink out_, err_;
  bool same_;
};

struct RankOutputOptions {
  bool label = true;        // "[rank 1] " before each line
  bool split_lines = true;  // false: bytes pass as they come (a job of one rank)
  bool to_console = true;
  std::string log_file;  // "" = none
};

/// Both streams of one rank. Owns their read ends.
class RankOutput {
 public:
  static constexpr std::size_t kTailLines = 20;

  /// Throws comm::Error{System} if the log file cannot be written.
  RankOutput(int rank, int out_fd, int err_fd, const RankOutputOptions& options, Console& console);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// Streams that are open and whose destination is not congested.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// True if the entry was one of ours.
  bool handle(const pollfd& entry);

  bool finished() const { return streams_[0].fd < 0 && streams_[1].fd < 0; }
  /// Takes what is there and closes, even if somebody still holds the other end.
  void finish();

  /// The last lines of both streams, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }

 private:
  struct Stream {
    int fd;
    Sink* sink;
    LineSplitter splitter{};
  };
  bool read_some(Stream& stream);
  void close_stream(Stream& stream);
  void emit(Stream& stream, std::string_view line);
  void remember(std::string_view line);
  void log(std::string_view bytes);

  RankOutputOptions options_;
  std::string label_, colour_label_;
  Stream streams_[2];
  int log_fd_ = -1;
  std::deque<std::string> tail_;
};

}  // namespace tutti::tools
