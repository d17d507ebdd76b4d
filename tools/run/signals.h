// SignalGuard: turns the signals a launcher lives by into something a poll loop can read.
//
// While it lives, SIGCHLD, SIGTSTP and the forwarded signals (all that others may send) are blocked in the calling
// thread, which alone may use the guard, and arrive on fd(); SIGPIPE is ignored. Threads that were there before, as
// those of CUDA's driver, hand on what reaches them. A signal that was ignored when the guard was made stays ignored: a
// job under nohup survives the end of its terminal. The destructor puts everything back. One guard at a time.
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
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

  /// The next pending signal, or nothing. Never blocks. One that asks to end, less than a second after the first that
  /// did, is left out: `timeout`, schedulers and terminals send one request twice, to a process and to its group.
  std::optional<int> next();

  /// A request to end has come by another way, from another node: a signal within a second repeats it.
  void note_request();

  /// Gives the calling process the signal mask and dispositions from before the guard. Async-signal-safe: for a child
  /// between fork and exec.
  void restore() const noexcept;

 private:
  int fd_ = -1;
  std::optional<std::chrono::steady_clock::time_point> first_request_;
  sigset_t watched_;
  sigset_t old_mask_;
  struct sigaction old_pipe_;
  std::array<struct sigaction, _NSIG> old_;  // of the watched ones
};

/// The signals that ask a job to end: SIGINT, SIGTERM, SIGHUP, SIGQUIT.
bool asks_to_end(int signal);

/// "SIGKILL", "SIGRTMIN+3"; "signal 99" for one without a name.
std::string signal_name(int signal);

}  // namespace tutti::tools
