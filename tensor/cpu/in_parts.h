// in_parts: an update of many elements, cut between the threads.
#pragma once

#include <tutti/tensor/cpu/flush_denormals.h>
#include <tutti/tensor/thread_pool.h>

#include <cstdint>

namespace tutti::tensor::cpu {

/// Calls update(begin, end) for parts that cover [0, count), with denormals flushed on the thread that runs it. The
/// update of an element must not depend on the others.
template <typename Update>
void in_parts(std::int64_t count, const Update& update) {
  constexpr std::int64_t kGrain = 1 << 15;  // some 10 us of work; waking a thread takes less
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const FlushDenormals flush;
    update(begin, end);
  });
}

}  // namespace tutti::tensor::cpu
