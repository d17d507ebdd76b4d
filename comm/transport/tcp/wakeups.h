// Wakeups: ends the poll() of every thread that sleeps in one transport.
//
// Each sleeper polls a descriptor of its own: with a shared one the first to wake would drain it, and the others might
// sleep on. Thread-safety: all methods may be called from any thread.
#pragma once

#include <mutex>
#include <vector>

namespace tutti::comm {

class Wakeups {
 public:
  Wakeups() = default;
  ~Wakeups();  // no thread sleeps any more
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;

  /// From construction to destruction the calling thread counts as a sleeper. Throws System.
  class Sleeper {
   public:
    explicit Sleeper(Wakeups& wakeups);
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    int descriptor() const { return fd_; }  // becomes readable when ring() is called

   private:
    Wakeups& wakeups_;
    int fd_ = -1;
  };

  /// Wakes all sleepers, and the next one as well: it may have polled for work just before this call.
  void ring();

 private:
  std::mutex mutex_;
  std::vector<int> asleep_;  // and not rung yet
  std::vector<int> spare_;
  bool missed_ = false;
};

}  // namespace tutti::comm
