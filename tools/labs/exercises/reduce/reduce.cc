// Lab reduce: the elements of all ranks, combined, at the root. The text is in text.md; `tutti lab check reduce`
// grades.

#include <tutti/tools/labs/lab.h>

#include <span>
#include <vector>

using tutti::labs::Operator;
using tutti::labs::Ranks;

// Every rank has an `input` of the same length. Afterwards the root's `output` holds input[i] of all ranks combined by
// `op`, for each i. All other ranks pass an empty output. `input` is not to be changed.
template <typename T>
void reduce(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op, int root) {
  // Your code. You have ranks.rank(), ranks.world_size(), ranks.send(span, destination), ranks.recv(span, source)
  // and op(into, from).
  (void)ranks, (void)input, (void)output, (void)op, (void)root;
}

TUTTI_LAB_REDUCE(reduce)
