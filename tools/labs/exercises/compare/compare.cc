// Lab compare: your collectives beside the library's. The text is in text.md; `tutti lab check compare` grades.

#include <tutti/tools/labs/lab_measure.h>

#include <functional>
#include <span>
#include <vector>

using tutti::labs::Operator;
using tutti::labs::Ranks;

// From the labs reduce and all_reduce: the same functions.
template <typename T>
void reduce(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op, int root) {
  (void)ranks, (void)input, (void)output, (void)op, (void)root;
}

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  (void)ranks, (void)data, (void)op;
}

// The time, in seconds, that call() takes: from the moment all ranks begin it until the last of them is done. All ranks
// call this with the same collective; what rank 0 returns counts. It measures `repetitions` times.
double call_seconds(Ranks& ranks, const std::function<void()>& call, int repetitions) {
  // Your code. ranks.seconds() reads the clock of this rank; clocks of two ranks have nothing to do with each other.
  (void)ranks, (void)call, (void)repetitions;
  return 0;
}

TUTTI_LAB_REDUCE(reduce)
TUTTI_LAB_ALL_REDUCE(all_reduce)
TUTTI_LAB_CALL_SECONDS(call_seconds)
