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

  explicit Panels(std::int64_t of, std::int64_t most = kPanelVectors)
      : columns(of), cut((of + Simd<T>::kLanes - 1) / Simd<T>::kLanes, most) {}
  std::int64_t count() const { return cut.parts; }
  std::int64_t vectors(std::int64_t panel) const { return cut.size(panel); }
  std::int64_t first(std::int64_t panel) const { return cut.first(panel) * Simd<T>::kLanes; }
};

/// How `depth` channels are cut into blocks of whole vectors, so that a panel of (taps, block) rows stays in the
/// second-level cache; into `fewest` at least, if there are so many vectors.
template <typename T>
struct DepthBlocks {
  std::int64_t depth;
  EvenParts cut;

  DepthBlocks(std::int64_t of, std::int64_t taps, std::int64_t fewest = 1)
      : depth(of),
        cut(vectors(of), std::max<std::int64_t>(1, std::min(1024 / (taps * Simd<T>::kLanes), vectors(of) / fewest))) {}
  std::int64_t count() const { return cut.parts; }
  std::int64_t first(std::int64_t block) const { return std::min(depth, cut.first(block) * Simd<T>::kLanes); }
  std::int64_t size(std::int64_t block) const { return first(block + 1) - first(block); }
  std::int64_t longest() const { return count() == 1 ? depth : cut.size(0) * Simd<T>::kLanes; }

 private:
  static std::int64_t vectors(std::int64_t places) { return (places + Simd<T>::kLanes - 1) / Simd<T>::kLanes; }
};

/// A panel: columns from `column`, rows (tap, place) for `depth` places from `deep`.
struct WeightPart {
  std::int64_t column;
  std::int64_t vectors;
  std::int64_t deep;
  std::int64_t depth;
};

/// Of a panel, with the filling.
template <typename T>
std::int64_t columns_of(const WeightPart& part) {
  return part.vectors * Simd<T>::kLanes;
}

/// Columns are outputs, places channels: what the forward pass multiplies by.
template <typename T>
void pack_outputs(T* panel, const T* weights, const WeightExtents& extents, const WeightPart& part);

/// Columns are channels, places outputs: what the gradient of the input is multiplied by.
template <typename T>
void pack_channels(T* panel, const T* weights, const WeightExtents& extents, const WeightPart& part);

/// The reverse of pack_outputs: weights (+)= panel.
template <typename T>
void unpack_outputs(T* weights, const T* panel, const WeightExtents& extents, const WeightPart& part, bool accumulate);

}  // namespace tutti::tensor::cpu
