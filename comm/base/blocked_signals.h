// BlockedSignals: signals belong to the threads of the program, not to those that the library starts.
#pragma once

#include <csignal>

namespace tutti::comm {

/// While it exists the calling thread receives no signal; a thread that it starts meanwhile never does.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tutti::comm
