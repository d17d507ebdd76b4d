// parallel_for: one loop, several cores. The process has one pool; its size is 1 (no extra thread) until
// set_num_threads.
//
// The caller works too, so n threads means n - 1 in the pool. A loop that starts while the pool is busy (another rank
// that runs as a thread, or a loop within a loop) runs on its own thread alone: never a deadlock, never a queue.
// Thread-safety: all functions from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tutti::tensor {

/// How many threads big kernels use from now on. Waits for a running loop. Throws std::invalid_argument unless 1..1024.
void set_num_threads(int count);
int num_threads();

/// A borrowed callable: body(begin, end) for a part of the range. Must outlive the call, which it does as an argument.
class RangeFunction {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFunction>)
      // Implicit on purpose: a lambda is passed where this is asked for.
      RangeFunction(const F& body)
      : body_(&body),
        call_([](const void* f, std::int64_t begin, std::int64_t end) { (*static_cast<const F*>(f))(begin, end); }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(body_, begin, end); }

 private:
  const void* body_;
  void (*call_)(const void*, std::int64_t, std::int64_t);
};

/// Calls body on disjoint parts that cover [0, count), each a multiple of `grain` long except the last. Returns when
/// all are done; rethrows the first exception. A range of at most one grain runs on the caller without touching the
/// pool.
void parallel_for(std::int64_t count, std::int64_t grain, RangeFunction body);

}  // namespace tutti::tensor
