// Text on a terminal: as wide as it is, and lines that change. Functions are thread-safe; a LiveLine is not.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace tutti::comm {

/// Columns of the terminal behind the descriptor; 80 where it does not tell. 0: it is no terminal.
std::size_t terminal_columns(int fd);

/// The beginning of `text` that stays within one line of so many columns. Parts that two spaces divide are left out
/// whole; a first part that is too long is cut. A character of UTF-8 counts as one column.
std::string_view fitted(std::string_view text, std::size_t columns);

/// Lines of at most so many columns, broken at spaces; a longer word has a line of its own. 0: as it is.
std::string wrapped(std::string_view text, std::size_t columns);

/// A line of which each text takes the place of the one before. Control characters in it are shown as '?'. It
/// disappears at its end.
class LiveLine {
 public:
  /// On the terminal behind `file`, which must outlive this object. Without a file (null) or a terminal nothing is
  /// shown; if `relayed`, a launcher reads what is no terminal, and shows texts that end in "\r" on its own.
  explicit LiveLine(std::FILE* file, bool relayed = false) : file_(file), relayed_(relayed) {}
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void show(const std::string& text);
  /// To be called before anything else is printed.
  void clear();

 private:
  std::FILE* const file_;
  const bool relayed_;
  bool is_open_ = false;
};

}  // namespace tutti::comm
