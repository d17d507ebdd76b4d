#include <tutti/comm/base/biased_mutex.h>

#include <thread>

namespace tutti::comm {

void BiasedMutex::lock() {
  mutex_.lock();
  calm_ = 0;
  if (others_.load(std::memory_order_relaxed)) return;
  others_.store(true, std::memory_order_relaxed);
  fences_.far();
  while (alone_.load(std::memory_order_acquire)) std::this_thread::yield();
}

bool BiasedMutex::enter() {
  if (!others_.load(std::memory_order_acquire)) {
    alone_.store(true, std::memory_order_relaxed);
    fences_.near();
    if (!others_.load(std::memory_order_acquire)) return true;
    alone_.store(false, std::memory_order_release);
  }
  mutex_.lock();
  if (++calm_ >= kCalm) others_.store(false, std::memory_order_release);
  return false;
}

}  // namespace tutti::comm
