// The launcher's own standard output and error: queues in front of them, written out without ever blocking. And how a
// stream of bytes becomes lines.
//
// Used from one poll loop; nothing here has a thread. rank_output.h reads what ranks print, and labels it.
#pragma once

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// Of a rank.
enum class Stream { Out = 0, Err = 1 };

/// Cuts a stream of bytes into lines. "\n", "\r\n" and "\r" (a progress bar's) end one; so does kMaxLine bytes.
class LineSplitter {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;
  /// `line` is without its end; `live`: that was a "\r" alone, so the next line takes its place on a terminal.
  using OnLine = std::function<void(std::string_view line, bool live)>;

  void feed(std::string_view bytes, const OnLine& on_line);
  /// The last line, if the stream ended without ending it.
  void finish(const OnLine& on_line);

 private:
  std::string partial_;
  bool after_return_ = false;  // partial_ is whole, but for a "\n" that may follow
};

/// The queue in front of one descriptor of the launcher's own. The descriptor is borrowed and keeps its flags. On a
/// terminal it may show a live line, which the next bytes erase.
class Sink {
 public:
  explicit Sink(int fd);

  void push(std::string_view bytes);
  /// Of a terminal: in place of the live line before it, cut where the screen ends. `text` must hold no control bytes.
  void show_live(std::string_view text);
  /// To be called when poll says that the descriptor takes bytes; writes at most what does not block.
  void write_some();

  int fd() const { return fd_; }
  bool is_terminal() const { return terminal_; }  // that knows escape sequences
  bool colours() const { return colours_; }       // a terminal that is not asked to stay plain
  bool has_bytes() const { return !closed() && written_ < queue_.size(); }
  bool congested() const { return !closed() && queue_.size() - written_ > kHighWater; }
  bool closed() const { return error_ != 0; }
  bool unread() const { return error_ == EPIPE; }  // its reader went away
  int error() const { return error_; }             // errno of the write that failed; 0: none

 private:
  static constexpr std::size_t kHighWater = 1 << 20;
  int fd_;
  bool terminal_ = false;
  bool colours_ = false;
  bool live_ = false;  // a live line is the last in the queue
  int error_ = 0;
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
  /// errno of what could not be written, which has been said on the other of the two; 0: all was written so far.
  int error() const { return out_.error() != 0 ? out_.error() : err_.error() != 0 ? err_.error() : log_error_; }
  /// A log file has lost something.
  void note_log_error(int error) { log_error_ = error; }

 private:
  void write(Sink& sink, Sink& other, const char* name);

  Sink out_, err_;
  bool same_;
  int log_error_ = 0;
};

}  // namespace tutti::tools
