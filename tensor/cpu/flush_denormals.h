// FlushDenormals: while one exists, this thread's arithmetic takes denormal numbers for zero and rounds to zero
// instead.
//
// An optimizer's running means of a gradient that is always zero (a pixel that is never inked) shrink by a factor each
// step until they are denormal and stay there; x86 computes with those a hundred times slower. Nothing is lost: values
// below 1e-38 move no parameter. Not movable; one thread, one scope.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tutti::tensor::cpu {

class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kReadAsZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushResults = 0x8000;
  static constexpr unsigned kReadAsZero = 0x0040;
  unsigned before_;
#else
  FlushDenormals() = default;
#endif

 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

}  // namespace tutti::tensor::cpu
