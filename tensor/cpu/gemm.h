// Matrix products on raw pointers, for T = float and double. Private to tensor/cpu; gemm.cc chooses.
//
// c(i, j) = sum over p of a(i, p) b(p, j). Both kernels sum over p in an order that depends on k alone, never on m, n,
// the tile or the thread: a row of the result is the same bits whatever else is in the batch. C is written row by row
// with stride ldc; accumulate adds to it.
#pragma once

#include <tutti/tensor/cpu/simd.h>

#include <algorithm>
#include <cstdint>

namespace tutti::tensor::cpu {

template <typename T>
struct Product {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const T* a;
  std::int64_t a_row;  // distance between a(i, p) and a(i + 1, p)
  std::int64_t a_col;  // distance between a(i, p) and a(i, p + 1)
  const T* b;
  std::int64_t b_row;  // distance between b(p, j) and b(p + 1, j)
  std::int64_t b_col;  // distance between b(p, j) and b(p, j + 1)
  T* c;
  std::int64_t c_row;
  bool accumulate;
  const T* ahead = nullptr;  // gemm_dots: columns of b that come next, to be fetched meanwhile
  std::int64_t ahead_columns = 0;
  bool stream = false;  // c is too large for the caches to hold it until it is read
  T start = 0;          // gemm_panels: where sums begin, taken away from them at the end (exact_sum.h)
};

/// The widest panel of gemm_panels, in vectors.
inline constexpr int kPanelsVectors = kVectorRegisters == 32 ? 3 : 2;

/// Reads both operands along p: a_col and b_row must be 1. No packing; the better one when k is long.
template <typename T>
void gemm_dots(const Product<T>& product);

/// Packs b, so its strides are free as long as one of them is 1; a's are free.
template <typename T>
void gemm_panels(const Product<T>& product);

/// The extents of `count` things cut into the fewest parts of at most `most`, as equal as can be.
struct EvenParts {
  std::int64_t parts;
  std::int64_t base;
  std::int64_t longer;  // the first so many parts hold one more

  EvenParts(std::int64_t count, std::int64_t most)
      : parts((count + most - 1) / most), base(parts > 0 ? count / parts : 0), longer(parts > 0 ? count % parts : 0) {}
  std::int64_t size(std::int64_t part) const { return base + (part < longer ? 1 : 0); }
  /// How many lie in the parts before it.
  std::int64_t first(std::int64_t part) const { return part * base + std::min(part, longer); }
};

}  // namespace tutti::tensor::cpu
