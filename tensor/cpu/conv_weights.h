// Turns convolution weights (O, C, taps) into the panels that gathered_product.h reads, and a gradient back. Private to
// tensor/cpu.
//
// Squares of kLanes x kLanes are transposed in registers. All extents are those of one group.
#pragma once

#include <tutti/tensor/cpu/gathered_product.h>
#include <tutti/tensor/cpu/gemm.h>

#include <algorithm>
#include <cstdint>

namespace tutti::tensor::cpu {

struct WeightExtents {
  std::int64_t outputs;
  std::int64_t channels;
  std::int64_t taps;
  std::int64_t numel() const { return outputs * channels * taps; }
};

/// How `columns` columns are cut into panels of as equal a width as can be, each a whole number of vectors.
template <typename T>
struct Panels {
  std::int64_t columns;
  EvenParts cut;

  explicit Panels(std::int64_t of) : columns(of), cut((of + Simd<T>::kLanes - 1) / Simd<T>::kLanes, kPanelVectors) {}
  std::int64_t count() const { return cut.parts; }
  std::int64_t vectors(std::int64_t panel) const { return cut.size(panel); }
  std::int64_t first(std::int64_t panel) const {
    return (panel * cut.base + std::min(panel, cut.longer)) * Simd<T>::kLanes;
  }
  std::int64_t width() const { return first(count()); }  // of all, with the filling
};

/// Columns are outputs [first, first + vectors * kLanes), rows (tap, channel): what the forward pass multiplies by.
template <typename T>
void pack_outputs(T* panel, const T* weights, const WeightExtents& extents, std::int64_t first, std::int64_t vectors);

/// Columns are channels, rows (tap, output): what the gradient of the input is multiplied by.
template <typename T>
void pack_channels(T* panel, const T* weights, const WeightExtents& extents, std::int64_t first, std::int64_t vectors);

/// weights (O, C, taps) (+)= the transpose of rows (tap, channel) by columns (output), `row_length` elements apart.
template <typename T>
void unpack_outputs(T* weights, const T* rows, std::int64_t row_length, const WeightExtents& extents, bool accumulate);

}  // namespace tutti::tensor::cpu
