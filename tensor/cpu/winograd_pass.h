// How conv_winograd.h computes some of a result's squares. Private to tensor/cpu.
#pragma once

#include <tutti/tensor/cpu/conv_taps.h>
#include <tutti/tensor/cpu/winograd_weights.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::tensor::cpu {

/// A convolution with 3x3 weights, forward or backward.
template <typename T>
struct WinogradPass {
  const T* from;
  T* to;
  std::int64_t batch;
  ConvAxis vertical;  // from input to output, whichever is the image
  ConvAxis horizontal;
  std::int64_t depth;    // channels read
  std::int64_t breadth;  // channels computed
  const T* bias;
  bool relu;
  bool accumulate;
};

/// Squares along one direction.
inline std::int64_t winograd_squares(const ConvAxis& axis) { return (axis.output + kWinogradStep - 1) / kWinogradStep; }

/// Neighbouring squares that are computed together: what they read, transformed, and the sums of their products.
template <typename T>
class WinogradGroup {
  using S = Simd<T>;
  using Vec = typename S::Vec;

 public:
  /// Of at most `most` squares. pass and weights must outlive it.
  WinogradGroup(const WinogradPass<T>& pass, const WinogradWeights<T>& weights, std::int64_t most)
      : pass_(pass),
        weights_(weights),
        line_((pass.depth + S::kLanes - 1) / S::kLanes * S::kLanes),
        between_inputs_(most * line_ + S::kLanes),
        between_sums_((most * kPanelVectors + 1) * S::kLanes),
        inputs_(Tensor::empty({kWinogradProducts * between_inputs_}, float_type<T>())),
        sums_(Tensor::empty({kWinogradProducts * between_sums_}, float_type<T>())),
        outside_(Tensor::zeros({line_}, float_type<T>())) {
    for (std::int64_t deep = 0; deep < pass.depth; deep += kBlock) {
      blocks_.push_back({{deep, deep, std::min(kBlock, pass.depth - deep)}});
    }
  }

  /// Squares are numbered image by image, row by row.
  void compute(std::int64_t first, std::int64_t count) {
    const std::int64_t columns = winograd_squares(pass_.horizontal);
    const std::int64_t plane = winograd_squares(pass_.vertical) * columns;
    places_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = (first + i) % plane;
      places_.push_back({(first + i) / plane, at / columns * kWinogradStep, at % columns * kWinogradStep});
      read(places_.back(), inputs_.data<T>() + i * line_);
    }
    for (std::int64_t panel = 0; panel < weights_.panels().count(); ++panel) {
      for (int product = 0; product < kWinogradProducts; ++product) multiply(panel, product);
      for (std::int64_t i = 0; i < count; ++i) write(i, panel);
    }
  }

 private:
  // Where a square begins in the result.
  struct Place {
    std::int64_t image;
    std::int64_t row;
    std::int64_t column;
  };

  static constexpr std::int64_t kBlock = 64;  // depth of one sum: longer sums lose more bits

  // Transforms the pixels under a square; those outside of the image are zero.
  void read(const Place& place, T* to) const {
    const T* pixels[kWinogradProducts];
    for (int i = 0; i < kWinogradProducts; ++i) {
      const std::int64_t row = place.row - pass_.vertical.padding + i / kWinogradSide;
      const std::int64_t column = place.column - pass_.horizontal.padding + i % kWinogradSide;
      const bool inside = row >= 0 && row < pass_.vertical.input && column >= 0 && column < pass_.horizontal.input;
      const std::int64_t pixel = (place.image * pass_.vertical.input + row) * pass_.horizontal.input + column;
      pixels[i] = inside ? pass_.from + pixel * pass_.depth : outside_.data<T>();
    }
    for (std::int64_t c = 0; c < pass_.depth; c += S::kLanes) {
      Vec square[kWinogradProducts], out[kWinogradProducts];
      if (c + S::kLanes <= pass_.depth) {
#pragma GCC unroll 36
        for (int i = 0; i < kWinogradProducts; ++i) square[i] = S::load(pixels[i] + c);
      } else {
        for (int i = 0; i < kWinogradProducts; ++i) square[i] = S::load_partial(pixels[i] + c, pass_.depth - c);
      }
      winograd_transform<WinogradInput, T>(square, out);
#pragma GCC unroll 36
      for (int i = 0; i < kWinogradProducts; ++i) S::store(to + i * between_inputs_ + c, out[i]);
    }
  }

  // One of the matrix products: all squares times one panel.
  void multiply(std::int64_t panel, int product) {
    GatheredTile<T> tile;
    tile.panel = weights_.panel(panel, product);
    tile.vectors = weights_.panels().vectors(panel);
    tile.columns = tile.vectors * S::kLanes;
    const EvenParts tiles(static_cast<std::int64_t>(places_.size()), kTileRows);
    const T* from = inputs_.data<T>() + product * between_inputs_;
    T* to = sums_.data<T>() + product * between_sums_;
    for (std::int64_t t = 0; t < tiles.parts; ++t) {
      tile.rows = static_cast<int>(tiles.size(t));
      for (int i = 0; i < tile.rows; ++i, from += line_, to += tile.columns) {
        tile.a[i] = from;
        tile.c[i] = to;
      }
      for (const std::vector<Segment>& block : blocks_) {
        tile.accumulate = &block != &blocks_.front();
        run_tile(tile, block);
      }
    }
  }

  // Transforms a square's sums into the pixels that lie in the result.
  void write(std::int64_t index, std::int64_t panel) const {
    const Place& place = places_[static_cast<std::size_t>(index)];
    const std::int64_t rows = std::min<std::int64_t>(kWinogradStep, pass_.vertical.output - place.row);
    const std::int64_t columns = std::min<std::int64_t>(kWinogradStep, pass_.horizontal.output - place.column);
    const std::int64_t width = weights_.panels().vectors(panel) * S::kLanes;
    const std::int64_t line = pass_.horizontal.output * pass_.breadth;
    T* const to = pass_.to + (place.image * pass_.vertical.output + place.row) * line + place.column * pass_.breadth;
    for (std::int64_t v = 0; v < width; v += S::kLanes) {
      const T* const from = sums_.data<T>() + index * width + v;
      Vec square[kWinogradProducts], out[kWinogradStep * kWinogradStep];
#pragma GCC unroll 36
      for (int i = 0; i < kWinogradProducts; ++i) square[i] = S::load(from + i * between_sums_);
      winograd_transform<WinogradOutput, T>(square, out);
      const std::int64_t channel = weights_.panels().first(panel) + v;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          finish(to + row * line + column * pass_.breadth, channel, out[row * kWinogradStep + column]);
        }
      }
    }
  }

  void finish(T* pixel, std::int64_t channel, Vec sum) const {
    const std::int64_t count = std::min(S::kLanes, pass_.breadth - channel);
    const auto load = [&](const T* from) { return count == S::kLanes ? S::load(from) : S::load_partial(from, count); };
    if (pass_.accumulate) sum += load(pixel + channel);
    if (pass_.bias != nullptr) sum += load(pass_.bias + channel);
    if (pass_.relu) sum = sum <= T{0} ? Vec{} : sum;  // NaN stays NaN
    if (count == S::kLanes) {
      S::store(pixel + channel, sum);
    } else {
      S::store_partial(pixel + channel, sum, count);
    }
  }

  const WinogradPass<T>& pass_;
  const WinogradWeights<T>& weights_;
  std::int64_t line_;            // a square's channels, in whole vectors
  std::int64_t between_inputs_;  // those of a product and of the next one
  std::int64_t between_sums_;
  Tensor inputs_;   // (product, square, channel read)
  Tensor sums_;     // (product, square, column of the panel)
  Tensor outside_;  // a pixel of the padding
  std::vector<Place> places_;
  std::vector<std::vector<Segment>> blocks_;
};

}  // namespace tutti::tensor::cpu
