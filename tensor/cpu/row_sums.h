// How sums over the M rows of a matrix (M, C) are taken for each column: in batch norm and for biases. Private to
// tensor/cpu.
//
// Rows are cut into blocks that stay in the first-level cache. Within a block sums are taken in T; the blocks of a
// chunk are combined in double, and then the chunks, in order. The cuts depend on M and C alone, so results do not
// depend on the number of threads. For exact sums no block has rows of two images, so that what a block adds up to does
// not depend on the images beside it.
#pragma once

#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/tensor.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::tensor::cpu {

inline constexpr std::int64_t kBlockBytes = 16 << 10;
inline constexpr std::int64_t kFewestBlockRows = 16;  // with fewer the double arithmetic per block would be felt
inline constexpr std::int64_t kMostChunks = 64;
inline constexpr std::int64_t kRowsAtOnce = 4;  // per read and write of the running sums

/// Rows in blocks, blocks in chunks; a chunk is what one thread takes.
struct Cuts {
  std::int64_t rows;
  std::int64_t block_rows;
  std::int64_t image_rows;      // blocks end where an image does
  std::int64_t chunk_rows = 0;  // a multiple of block_rows or image_rows
  std::int64_t chunks = 0;
  std::int64_t grain = 1;  // chunks that are worth a thread

  Cuts(std::int64_t m, std::int64_t columns, std::size_t element, std::int64_t rows_of_image = 0)
      : rows(m), image_rows(rows_of_image > 0 ? rows_of_image : m) {
    const std::int64_t width = std::max<std::int64_t>(1, columns);
    const std::int64_t row_bytes = width * static_cast<std::int64_t>(element);
    block_rows = std::max(kFewestBlockRows, kBlockBytes / row_bytes / kRowsAtOnce * kRowsAtOnce);
    if (m == 0) return;
    const std::int64_t unit = rows_of_image > 0 ? rows_of_image : block_rows;
    const std::int64_t units = (m + unit - 1) / unit;
    chunk_rows = (units + kMostChunks - 1) / kMostChunks * unit;
    chunks = (m + chunk_rows - 1) / chunk_rows;
    grain = std::max<std::int64_t>(1, kElementGrain / (width * chunk_rows));
  }

  std::int64_t first_row(std::int64_t chunk) const { return chunk * chunk_rows; }
  std::int64_t end_row(std::int64_t chunk) const { return std::min(rows, (chunk + 1) * chunk_rows); }

  template <typename F>
  void for_chunks(F&& chunk) const {
    parallel_for(chunks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) chunk(c);
    });
  }

  /// block(first row, rows) for the blocks of one chunk, in order.
  template <typename F>
  void for_blocks(std::int64_t chunk, F&& block) const {
    for (std::int64_t row = first_row(chunk); row < end_row(chunk);) {
      const std::int64_t end = std::min(end_row(chunk), (row / image_rows + 1) * image_rows);
      const std::int64_t count = std::min(block_rows, end - row);
      block(row, count);
      row += count;
    }
  }
};

/// group.operator()<rows at once>(offset) over `rows` rows of a block.
template <typename F>
void for_row_groups(std::int64_t rows, std::int64_t columns, F&& group) {
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) group.template operator()<kRowsAtOnce>(row * columns);
  for (; row < rows; ++row) group.template operator()<1>(row * columns);
}

template <std::int64_t kRows, typename T>
T add_up(const T (&terms)[kRows]) {
  if constexpr (kRows == 4) {
    return (terms[0] + terms[1]) + (terms[2] + terms[3]);
  } else {
    static_assert(kRows == 1);
    return terms[0];
  }
}

/// sums[c] += x over kRows rows
template <std::int64_t kRows, typename T>
void add_rows(T* sums, const T* x, std::int64_t columns) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < columns; ++c) {
    T terms[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) terms[r] = x[r * columns + c];
    sums[c] += add_up(terms);
  }
}

template <typename T>
Tensor scratch_rows(std::int64_t rows, std::int64_t columns) {
  return Tensor::empty({rows, columns}, sizeof(T) == sizeof(float) ? DType::Float32 : DType::Float64);
}

}  // namespace tutti::tensor::cpu
