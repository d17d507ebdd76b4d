// Lab rabenseifner: all_reduce by recursive halving and doubling. The text is in text.md; `tutti lab check
// rabenseifner` grades.

#include <tutti/tools/labs/lab.h>

#include <cstddef>
#include <span>
#include <vector>

using tutti::labs::Operator;
using tutti::labs::Ranks;

// One round of halving, of one rank: with whom, and which elements [begin, end) it keeps and which it gives up.
struct Round {
  int partner = 0;
  std::size_t kept_begin = 0, kept_end = 0;
  std::size_t given_begin = 0, given_end = 0;
};

// The rounds of rank `rank` of `q` ranks, q a power of two, for an array of `count` elements.
inline std::vector<Round> halving_rounds(int rank, int q, std::size_t count) {
  // Your code.
  (void)rank, (void)q, (void)count;
  return {};
}

// Every rank has an array `data` of the same length. Afterwards data[i] of every rank is what data[i] of all ranks,
// combined by `op`, makes.
template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  // Your code: ranks beyond a power of two hand over; the rounds forwards; the rounds backwards; they get the result.
  (void)ranks, (void)data, (void)op;
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
