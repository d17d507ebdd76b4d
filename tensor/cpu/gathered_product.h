// A matrix product whose left rows lie anywhere: c(i, j) = sum over p of a(i, p) b(p, j). Private to tensor/cpu.
//
// Row i of a is cut into segments that lie at the same distances from the row's own start in every row, as the pixels
// under a convolution's window do; so nothing is copied together first (no im2col). b is a packed panel: kPanelVectors
// vectors wide at most, row after row; of some hundred rows, so that it stays in the second-level cache while tile
// after tile reads it. The sum over p runs in the order of the segments, so a row of c does not depend on which other
// rows there are. Idea: Dukhan, "The Indirect Convolution Algorithm", 2019, https://arxiv.org/abs/1907.02129
#pragma once

#include <tutti/tensor/cpu/simd.h>

#include <cstdint>
#include <vector>

namespace tutti::tensor::cpu {

inline constexpr int kPanelVectors = kVectorRegisters == 32 ? 4 : 2;
inline constexpr int kTileRows = kVectorRegisters == 32 ? 6 : 4;

struct Segment {
  std::int64_t offset;     // elements from the start of a row
  std::int64_t panel_row;  // of b
  std::int64_t length;     // consecutive in both
};

template <typename T>
struct GatheredTile {
  int rows;                 // 1 to kTileRows
  const T* a[kTileRows];    // where each row begins
  std::int64_t step = 1;    // between neighbours of a segment in a
  T* c[kTileRows];          // where its result goes
  const T* panel;           // panel row 0
  std::int64_t vectors;     // 1 to kPanelVectors: width of the panel
  std::int64_t columns;     // of c; the rest of the panel's width is filling
  bool accumulate = false;  // add to c
  const T* bias = nullptr;  // by column; added to the sums
  bool relu = false;        // applied to the result
  T start = 0;              // where sums begin, taken away from them at the end (exact_sum.h)
};

/// Computes one tile. No segments: the sum over nothing is 0.
template <typename T>
void run_tile(const GatheredTile<T>& tile, const std::vector<Segment>& segments);

}  // namespace tutti::tensor::cpu
