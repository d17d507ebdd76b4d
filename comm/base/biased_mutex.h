// BiasedMutex: a mutex that one thread, who comes often, enters without a locked instruction while nobody else does.
//
// A locked instruction waits until all that was written before has left the processor, such as a line that another rank
// still has. The frequent thread says in alone_ that it is inside, and looks whether others are about; the others say
// in others_ that they are, have all threads pass a fence (far_fence.h, some microseconds), and wait until it is out.
// After that it takes the mutex as they do, until it has met nobody for a while.
//
// Thread-safety: lock() and unlock() by any thread, as of std::mutex; Brief by one thread at a time, not within itself
// or lock(). Sources: Kawachiya et al., "Lock Reservation: Java Locks Can Mostly Do Without Atomic Operations" (OOPSLA
// 2002); Dice et al., "Asymmetric Dekker Synchronization" (2001).
#pragma once

#include <tutti/comm/base/far_fence.h>

#include <atomic>
#include <mutex>

namespace tutti::comm {

class BiasedMutex {
 public:
  void lock();
  void unlock() { mutex_.unlock(); }

  /// The frequent thread's lock, for a few instructions: others look all the time for its end.
  class Brief {
   public:
    explicit Brief(BiasedMutex& mutex) : mutex_(&mutex), alone_(mutex.enter()) {}
    ~Brief() {
      if (mutex_) unlock();
    }
    Brief(const Brief&) = delete;
    Brief& operator=(const Brief&) = delete;

    void unlock() {
      mutex_->leave(alone_);
      mutex_ = nullptr;
    }

   private:
    BiasedMutex* mutex_;
    const bool alone_;
  };

  // Entries of the frequent thread without another's, after which it may be alone: what the next other one costs is
  // little beside so many.
  static constexpr int kCalm = 1024;

 private:
  bool enter();  // true: without the mutex
  void leave(bool alone) {
    if (!alone) return mutex_.unlock();
    alone_.store(false, std::memory_order_release);
  }

  std::mutex mutex_;
  std::atomic<bool> alone_{false};
  std::atomic<bool> others_{true};  // written with mutex_ held
  int calm_ = 0;                    // guarded by mutex_
  FencePair fences_;
};

}  // namespace tutti::comm
