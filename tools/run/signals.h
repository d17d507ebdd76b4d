// SignalGuard: turns the signals a launcher lives by into something a poll loop can read.
//
// While it lives, SIGCHLD, SIGTSTP and the forwarded signals (all that others may send) are blocked in the calling
// thread (threads made afterwards inherit that) and arrive on fd(); SIGPIPE is ignored. A signal that was ignored when
// the guard was made stays ignored: a job under nohup survives the end of its terminal. The destructor puts everything
// back.
#pragma once

#include <signal.h>

#include <optional>
#include <string>

namespace tutti::tools {

class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  /// Readable when next() has something to give.
  int fd() const { return fd_; }

  /// The next pending signal, or nothing. Never blocks.
  std::optional<int> next();

  /// Gives the calling process the signal mask and dispositions from before the guard. Async-signal-safe: for a child
  /// between fork and exec.
  void restore() const noexcept;

 private:
  int fd_ = -1;
  sigset_t old_mask_;
  struct sigaction old_pipe_;
  struct sigaction old_child_;
};

/// The signals that ask a job to end: SIGINT, SIGTERM, SIGHUP, SIGQUIT.
bool asks_to_end(int signal);

/// "SIGKILL", "SIGRTMIN+3"; "signal 99" for one without a name.
std::string signal_name(int signal);

}  // namespace tutti::tools
