// What one chunk of pixels adds to the gradient of a convolution's weights: for each tap, what the tap read,
// transposed, times the result's gradient. Private to tensor/cpu; conv_weight_gradient.cc sums over the chunks.
//
// A chunk's gradients are packed into a panel, one pixel a row, if they do not lie so; a tap then reads its input in
// place, in segments that run along the width; where images are narrow, its segments are short and are joined by
// copying. With few channels (a first layer's three) the input is copied with its padding around it: then every tap
// reads everywhere, and all taps make one product.
#pragma once

#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/conv_source.h>
#include <tutti/tensor/cpu/conv_weights.h>
#include <tutti/tensor/cpu/cpu_kernels.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace tutti::tensor::cpu {

template <typename T>
class ChunkSums {
  using S = Simd<T>;

 public:
  /// Of one group; `images` are in a chunk at most, `start` as GatheredTile's. extents must outlive it.
  ChunkSums(const Tensor& x, const Tensor& dy, const ConvExtents& extents, std::int64_t group, std::int64_t images,
            T start)
      : e_(extents),
        w_(extents.weights()),
        x_(x.data<T>() + group * w_.channels),
        dy_(dy.data<T>() + group * w_.outputs),
        images_(images),
        start_(start),
        few_channels_(w_.channels < kFewChannels) {}

  /// One thread's, for parts of up to `depth` channels.
  struct Memory {
    Memory(const ChunkSums& of, std::int64_t depth) : line((depth / S::kLanes + 2) * S::kLanes) {
      const std::int64_t rows = std::max(kChunkPixels, of.e_.horizontal.output);
      const std::int64_t of_panel = rows * kPanelVectors * S::kLanes;
      const std::int64_t of_input = of.few_channels_ ? of.padded_size() : rows * line;
      block = Tensor::empty({2 * of_panel + of_input}, float_type<T>());
      panel = block.data<T>();
      joined_panel = panel + of_panel;
      input = joined_panel + of_panel;
    }
    Tensor block;
    std::int64_t line;  // between joined pixels: not a power of two, which would fill few sets of the cache
    T* panel;           // a chunk's gradients, one pixel a row
    T* joined_panel;    // those that a tap of short segments meets
    T* input;           // a chunk's input with its padding, or what a tap of short segments reads
    std::vector<Segment> segments;
  };

  /// sums, (tap, channel) x (output) as unpack_outputs reads them, (+)= those of one chunk.
  void add(const Chunk& chunk, const WeightPart& part, Memory& memory, T* sums, bool accumulate) const {
    const T* const panel = packed_gradient(chunk, part, memory.panel);
    ConvSource<T> source{x_, e_.vertical, e_.horizontal, e_.channels};
    source.data += chunk.images.begin * source.image() + part.deep;
    if (few_channels_) {
      source = with_padding(memory.input, source, chunk.images.count(), w_.channels);
      source.find_segments(chunk, 0, 0, memory.segments);
      multiply({source.data, source.step(), panel}, tap_lines(source), part, memory.segments, sums, accumulate);
      return;
    }
    std::vector<std::int64_t> lines(static_cast<std::size_t>(part.depth));
    std::iota(lines.begin(), lines.end(), std::int64_t{0});
    for (std::int64_t tap = 0; tap < w_.taps; ++tap) {
      const std::int64_t pixels =
          source.find_segments(chunk, tap / e_.horizontal.kernel, tap % e_.horizontal.kernel, memory.segments);
      Operands operands{source.data, source.step(), panel};
      if (pixels < static_cast<std::int64_t>(memory.segments.size()) * kShortSegment) {
        operands = join_segments(operands, part, memory);
      }
      multiply(operands, lines, part, memory.segments, sums + tap * part.depth * columns_of<T>(part), accumulate);
    }
  }

 private:
  static constexpr std::int64_t kFewChannels = 16;
  static constexpr std::int64_t kShortSegment = 16;

  // What the tiles of one product read.
  struct Operands {
    const T* input;  // of the first line
    std::int64_t step;
    const T* panel;
  };

  std::int64_t padded_size() const {
    const std::int64_t height = e_.vertical.input + 2 * e_.vertical.padding;
    const std::int64_t breadth = e_.horizontal.input + 2 * e_.horizontal.padding;
    return images_ * height * breadth * w_.channels;
  }

  // Where each (tap, channel) begins, from where the first does.
  std::vector<std::int64_t> tap_lines(const ConvSource<T>& source) const {
    std::vector<std::int64_t> lines;
    for (std::int64_t row = 0; row < e_.vertical.kernel; ++row) {
      for (std::int64_t column = 0; column < e_.horizontal.kernel; ++column) {
        const std::int64_t tap = source.offset(row * e_.vertical.dilation, column * e_.horizontal.dilation);
        for (std::int64_t c = 0; c < w_.channels; ++c) lines.push_back(tap + c);
      }
    }
    return lines;
  }

  // Copies what the segments read, and the rows of the panel that it meets, into one segment.
  Operands join_segments(const Operands& apart, const WeightPart& part, Memory& memory) const {
    std::int64_t pixels = 0;
    for (const Segment& segment : memory.segments) {
      for (std::int64_t i = 0; i < segment.length; ++i, ++pixels) {
        copy_line(memory.input + pixels * memory.line, apart.input + segment.offset + i * apart.step, part.depth);
        copy_line(memory.joined_panel + pixels * columns_of<T>(part),
                  apart.panel + (segment.panel_row + i) * columns_of<T>(part), columns_of<T>(part));
      }
    }
    memory.segments.assign(1, {0, 0, pixels});
    return {memory.input, memory.line, memory.joined_panel};
  }

  // To memory that has room for whole vectors; what fills the last one is zero.
  static void copy_line(T* to, const T* from, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + S::kLanes <= count; i += S::kLanes) S::store(to + i, S::load(from + i));
    if (i < count) S::store(to + i, S::load_partial(from + i, count - i));
  }

  // One pixel a row: where it lies, if it lies so.
  const T* packed_gradient(const Chunk& chunk, const WeightPart& part, T* panel) const {
    if (e_.outputs == columns_of<T>(part)) {
      const std::int64_t pixel = chunk.images.begin * e_.vertical.output + chunk.rows.begin;
      return dy_ + pixel * e_.horizontal.output * e_.outputs;
    }
    const std::int64_t columns = std::min(columns_of<T>(part), w_.outputs - part.column);
    for (std::int64_t n = chunk.images.begin; n < chunk.images.end; ++n) {
      for (std::int64_t row = chunk.rows.begin; row < chunk.rows.end; ++row) {
        const std::int64_t pixel = (n * e_.vertical.output + row) * e_.horizontal.output;
        for (std::int64_t column = 0; column < e_.horizontal.output; ++column) {
          const T* from = dy_ + (pixel + column) * e_.outputs + part.column;
          T* to = panel + chunk.pixel(n - chunk.images.begin, row, column, e_.horizontal.output) * columns_of<T>(part);
          copy_line(to, from, columns);
        }
      }
    }
    return panel;
  }

  // sums, one row a line, (+)= what the lines read times the panel.
  void multiply(const Operands& operands, const std::vector<std::int64_t>& lines, const WeightPart& part,
                const std::vector<Segment>& segments, T* sums, bool accumulate) const {
    GatheredTile<T> tile;
    tile.step = operands.step;
    tile.panel = operands.panel;
    tile.vectors = part.vectors;
    tile.columns = columns_of<T>(part);
    tile.accumulate = accumulate;
    tile.start = start_;
    const EvenParts tiles(static_cast<std::int64_t>(lines.size()), kTileRows);
    std::size_t next = 0;
    for (std::int64_t t = 0; t < tiles.parts; ++t) {
      tile.rows = static_cast<int>(tiles.size(t));
      for (int i = 0; i < tile.rows; ++i, ++next, sums += columns_of<T>(part)) {
        tile.a[i] = operands.input + lines[next];
        tile.c[i] = sums;
      }
      run_tile(tile, segments);
    }
  }

  const ConvExtents& e_;
  WeightExtents w_;
  const T* x_;
  const T* dy_;
  std::int64_t images_;
  T start_;
  bool few_channels_;
};

}  // namespace tutti::tensor::cpu
