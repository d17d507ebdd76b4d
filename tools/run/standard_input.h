// The launcher's standard input for one of its ranks.
//
// A file or pipe is handed to the rank as it is. A terminal is not: a rank is in the background there and would be
// stopped by reading, so its lines are passed on through a pipe, from the poll loop, at the pace at which the rank
// reads. Used by one thread.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

namespace tutti::tools {

class StandardInput {
 public:
  /// `wanted`: a rank of this host reads it. Throws comm::Error{System}.
  explicit StandardInput(bool wanted);
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  /// What the rank gets as its standard input; -1: /dev/null.
  int rank_end() const { return rank_end_; }
  /// The rank runs and has its copy.
  void handed_over();

  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);

 private:
  void read_terminal();
  void write_pipe();
  void close_pipe();

  int rank_end_ = -1;
  int pipe_ = -1;  // write end; -1: nothing to pass on
  std::string waiting_;
};

}  // namespace tutti::tools
