// Passes over (A, B, C) with one number for each (a, c), or over rows with one number each.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

// line(a, offset of the line) for the A B lines of C elements, cut over threads anywhere.
template <typename F>
void for_lines(const Tensor& whole, F&& line) {
  const std::int64_t middle = whole.shape()[1];
  const std::int64_t columns = whole.shape()[2];
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, columns) + 1;
  parallel_for(whole.shape()[0] * middle, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) line(i / middle, i * columns);
  });
}

// to[i] (+)= f(i) for i in [0, count)
template <typename T, typename F>
void map_line(T* to, std::int64_t count, bool accumulate, F f) {
  if (accumulate) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) to[i] += f(i);
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) to[i] = f(i);
  }
}

// Of (A, B, 1): rows of B elements with one number each.
template <typename T, typename F>
void for_rows(std::int64_t rows, std::int64_t columns, F&& row) {
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, columns) + 1;
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row(i);
  });
}

}  // namespace

void spread_middle(Tensor& out, const Tensor& a, double factor, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const std::int64_t columns = out.shape()[2];
    const T f = static_cast<T>(factor);
    const T* from = a.data<T>();
    T* to = out.data<T>();
    if (columns == 1) {
      const std::int64_t middle = out.shape()[1];
      for_rows<T>(out.shape()[0], middle, [&](std::int64_t row) {
        const T value = f * from[row];
        map_line(to + row * middle, middle, accumulate, [=](std::int64_t) { return value; });
      });
      return;
    }
    for_lines(out, [&](std::int64_t outer, std::int64_t at) {
      const T* line = from + outer * columns;
      map_line(to + at, columns, accumulate, [=](std::int64_t c) { return f * line[c]; });
    });
  });
}

void scale_rows(Tensor& out, const Tensor& a, const Tensor& factors, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const std::int64_t columns = a.shape()[1];
    const T* from = a.data<T>();
    const T* f = factors.data<T>();
    T* to = out.data<T>();
    for_rows<T>(a.shape()[0], columns, [&](std::int64_t row) {
      const T* line = from + row * columns;
      const T factor = f[row];
      map_line(to + row * columns, columns, accumulate, [=](std::int64_t c) { return line[c] * factor; });
    });
  });
}

void mul_channels(Tensor& out, const Tensor& a, const Tensor& s, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const std::int64_t columns = a.shape()[2];
    const T* from = a.data<T>();
    const T* factors = s.data<T>();
    T* to = out.data<T>();
    for_lines(out, [&](std::int64_t outer, std::int64_t at) {
      const T* line = from + at;
      const T* f = factors + outer * columns;
      map_line(to + at, columns, accumulate, [=](std::int64_t c) { return line[c] * f[c]; });
    });
  });
}

// Lines go by in order, so a result does not depend on the threads, which share the slabs.
void channel_dots(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const std::int64_t middle = a.shape()[1];
    const std::int64_t columns = a.shape()[2];
    const T* left = a.data<T>();
    const T* right = b.data<T>();
    T* to = out.data<T>();
    for_rows<T>(a.shape()[0], middle * columns, [&](std::int64_t outer) {
      T* total = to + outer * columns;
      if (!accumulate) std::fill(total, total + columns, T{0});
      for (std::int64_t line = outer * middle; line < (outer + 1) * middle; ++line) {
        const T* x = left + line * columns;
        const T* y = right + line * columns;
        map_line(total, columns, true, [=](std::int64_t c) { return x[c] * y[c]; });
      }
    });
  });
}

}  // namespace tutti::tensor::cpu
