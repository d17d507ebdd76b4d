// The launcher's standard input for one of its ranks.
//
// A file or pipe is handed to the rank as it is. A terminal is not: a rank is in the background there and would be
// stopped by reading, so its lines are passed on through a pipe, from the poll loop, at the pace at which the rank
// reads. Used by one thread.
#pragma once

#include <poll.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace tutti::tools {

class StandardInput {
 public:
  /// `wanted`: a rank of this host reads it. Throws comm::Error{System}.
  explicit StandardInput(bool wanted);

  /// What the rank gets as its standard input; -1: /dev/null.
  int rank_end() const { return wanted_ && !is_terminal_ ? STDIN_FILENO : rank_end_.get(); }
  /// The rank runs and has its copy.
  void handed_over() { rank_end_.close(); }

  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);

 private:
  void read_terminal();
  void write_pipe();
  void close_pipe();

  const bool wanted_;
  const bool is_terminal_;
  comm::Socket rank_end_;  // of a pipe for what comes from the terminal ...
  comm::Socket pipe_;      // ... and its write end; closed: nothing to pass on
  std::string waiting_;
};

}  // namespace tutti::tools
