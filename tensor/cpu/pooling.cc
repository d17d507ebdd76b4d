// Pooling over (N, H, W, C), along C. Forward walks over the windows; backward walks over the pixels and gathers from
// the windows that cover each, so every gradient is written once, by one thread, in a fixed order.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/simd.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <type_traits>

namespace tutti::tensor::cpu {
namespace {

using Windows = std::span<const PoolWindow>;

const PoolWindow& at(Windows windows, std::int64_t i) { return windows[static_cast<std::size_t>(i)]; }

std::int64_t size(Windows windows) { return static_cast<std::int64_t>(windows.size()); }

// row(n, i) for all images and i in [0, rows), each of which writes `width` elements.
template <typename F>
void for_image_rows(std::int64_t images, std::int64_t rows, std::int64_t width, F&& row) {
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, width) / 2 + 1;
  parallel_for(images * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row(i / rows, i % rows);
  });
}

template <typename T>
typename Simd<T>::Vec load(const T* from, std::int64_t count) {
  return count == Simd<T>::kLanes ? Simd<T>::load(from) : Simd<T>::load_partial(from, count);
}

template <typename T>
void store(T* to, typename Simd<T>::Vec v, std::int64_t count) {
  count == Simd<T>::kLanes ? Simd<T>::store(to, v) : Simd<T>::store_partial(to, v, count);
}

// One window of one image.
template <typename T>
struct Window {
  const T* pixel;  // its first one
  std::int64_t height;
  std::int64_t width;
  std::int64_t row_step;
  std::int64_t channels;

  Window(const Tensor& x, std::int64_t n, const PoolWindow& row, const PoolWindow& column)
      : pixel(x.data<T>() + ((n * x.shape()[1] + row.begin) * x.shape()[2] + column.begin) * x.shape()[3]),
        height(row.end - row.begin),
        width(column.end - column.begin),
        row_step(x.shape()[2] * x.shape()[3]),
        channels(x.shape()[3]) {}
};

// `count` channels from c on. NaN beats every number, and a later NaN an earlier one, as in PyTorch.
template <typename T, typename Choice>
void max_of(T* y, Choice* choice, const Window<T>& window, std::int64_t c, std::int64_t count) {
  using Vec = typename Simd<T>::Vec;
  using Number = std::conditional_t<sizeof(T) == sizeof(std::int32_t), std::int32_t, std::int64_t>;
  Vec best = load(window.pixel + c, count);
  decltype(best != best) chosen{};  // lanes of integers as wide as T's
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < window.height; ++i) {
    for (std::int64_t j = 0; j < window.width; ++j, ++number) {
      const Vec value = load(window.pixel + i * window.row_step + j * window.channels + c, count);
      const auto better = (value > best) | (value != value);
      best = better ? value : best;
      chosen = better ? decltype(chosen){} + static_cast<Number>(number) : chosen;
    }
  }
  store(y, best, count);
  for (std::int64_t lane = 0; lane < count; ++lane) choice[lane] = static_cast<Choice>(chosen[lane]);
}

template <typename T>
void mean_of(T* y, const Window<T>& window, T factor, std::int64_t c, std::int64_t count) {
  using Vec = typename Simd<T>::Vec;
  Vec total{};
  for (std::int64_t i = 0; i < window.height; ++i) {
    Vec row{};  // of its own: fewer additions behind each rounding
    for (std::int64_t j = 0; j < window.width; ++j) {
      row += load(window.pixel + i * window.row_step + j * window.channels + c, count);
    }
    total += row;
  }
  store(y, total * factor, count);
}

// window(offset in y, window, channel, count of channels) for all windows and strips of channels
template <typename T, typename F>
void for_windows(const Tensor& x, Windows rows, Windows columns, F&& window) {
  const std::int64_t channels = x.shape()[3];
  const std::int64_t width = size(columns);
  for_image_rows(x.shape()[0], size(rows), width * channels, [&](std::int64_t n, std::int64_t i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const Window<T> input(x, n, at(rows, i), at(columns, j));
      const std::int64_t out = ((n * size(rows) + i) * width + j) * channels;
      for (std::int64_t c = 0; c < channels; c += Simd<T>::kLanes) {
        window(out + c, input, c, std::min(Simd<T>::kLanes, channels - c));
      }
    }
  });
}

// to[c] (+)= f(c) for the channels of a pixel
template <typename T, typename F>
void write_line(T* to, std::int64_t channels, bool add, F f) {
  if (add) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) to[c] += f(c);
  } else {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) to[c] = f(c);
  }
}

// What a window that covers a pixel gives it.
struct Cover {
  std::int64_t out;  // offset of the window's channels in y
  const PoolWindow& row;
  const PoolWindow& column;
  std::int64_t h;  // the pixel
  std::int64_t w;
  bool add;  // false: the first to write there
};

// cover(channels of a pixel in dx, Cover) for every pixel and every window that covers it.
template <typename T, typename F>
void for_covered_pixels(Tensor& dx, Windows rows, Windows columns, bool accumulate, F&& cover) {
  const std::int64_t height = dx.shape()[1];
  const std::int64_t width = dx.shape()[2];
  const std::int64_t channels = dx.shape()[3];
  T* to = dx.data<T>();
  for_image_rows(dx.shape()[0], height, width * channels, [&](std::int64_t n, std::int64_t h) {
    T* pixel = to + (n * height + h) * width * channels;
    const auto above = std::ranges::partition_point(rows, [&](const PoolWindow& row) { return row.end <= h; });
    const std::int64_t first_row = above - rows.begin();
    std::int64_t first_column = 0;
    for (std::int64_t w = 0; w < width; ++w, pixel += channels) {
      while (first_column < size(columns) && at(columns, first_column).end <= w) ++first_column;
      bool add = accumulate;
      for (std::int64_t i = first_row; i < size(rows) && at(rows, i).begin <= h; ++i) {
        for (std::int64_t j = first_column; j < size(columns) && at(columns, j).begin <= w; ++j) {
          cover(pixel,
                Cover{((n * size(rows) + i) * size(columns) + j) * channels, at(rows, i), at(columns, j), h, w, add});
          add = true;
        }
      }
      if (!add) std::fill(pixel, pixel + channels, T{0});  // no window looked at it
    }
  });
}

template <typename F>
void with_choice_type(DType dtype, F&& body) {
  if (dtype == DType::UInt8) return body.template operator()<std::uint8_t>();
  body.template operator()<std::int64_t>();
}

}  // namespace

void max_pool(Tensor& y, Tensor& choice, const Tensor& x, Windows rows, Windows columns) {
  with_float_type(x.dtype(), [&]<typename T>() {
    with_choice_type(choice.dtype(), [&]<typename Choice>() {
      T* to = y.data<T>();
      Choice* chosen = choice.data<Choice>();
      for_windows<T>(x, rows, columns,
                     [&](std::int64_t out, const Window<T>& window, std::int64_t c, std::int64_t count) {
                       max_of(to + out, chosen + out, window, c, count);
                     });
    });
  });
}

void max_pool_backward(Tensor& dx, const Tensor& grad, const Tensor& choice, Windows rows, Windows columns,
                       bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    with_choice_type(choice.dtype(), [&]<typename Choice>() {
      const std::int64_t channels = dx.shape()[3];
      const T* all = grad.data<T>();
      const Choice* chosen = choice.data<Choice>();
      for_covered_pixels<T>(dx, rows, columns, accumulate, [=](T* pixel, const Cover& cover) {
        const std::int64_t width = cover.column.end - cover.column.begin;
        const auto here = static_cast<Choice>((cover.h - cover.row.begin) * width + cover.w - cover.column.begin);
        const T* g = all + cover.out;
        const Choice* where = chosen + cover.out;
        write_line(pixel, channels, cover.add, [=](std::int64_t c) {
          const T value = g[c];  // read in any case, so that there is no branch
          return where[c] == here ? value : T{0};
        });
      });
    });
  });
}

void mean_pool(Tensor& y, const Tensor& x, Windows rows, Windows columns) {
  with_float_type(x.dtype(), [&]<typename T>() {
    T* to = y.data<T>();
    const std::int64_t channels = x.shape()[3];
    const std::int64_t width = size(columns);
    for_windows<T>(
        x, rows, columns, [&](std::int64_t out, const Window<T>& window, std::int64_t c, std::int64_t count) {
          const std::int64_t cell = out / channels;
          const std::int64_t divisor = at(rows, cell / width % size(rows)).divisor * at(columns, cell % width).divisor;
          mean_of(to + out, window, T{1} / static_cast<T>(divisor), c, count);
        });
  });
}

void mean_pool_backward(Tensor& dx, const Tensor& grad, Windows rows, Windows columns, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    const std::int64_t channels = dx.shape()[3];
    const T* all = grad.data<T>();
    for_covered_pixels<T>(dx, rows, columns, accumulate, [=](T* pixel, const Cover& cover) {
      const T factor = T{1} / static_cast<T>(cover.row.divisor * cover.column.divisor);
      const T* g = all + cover.out;
      write_line(pixel, channels, cover.add, [=](std::int64_t c) { return factor * g[c]; });
    });
  });
}

}  // namespace tutti::tensor::cpu
