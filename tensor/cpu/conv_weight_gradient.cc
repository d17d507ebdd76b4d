// The gradient of a convolution's weights: for each tap (tap, channel) x (output) = sum over pixels of what the tap
// read, transposed, times the result's gradient.
//
// Work is cut into blocks of channels times panels of outputs, and the pixels into chunks that stay in the cache for
// all taps. A chunk's gradients are packed into a panel, one pixel a row; a tap then reads its input in place, in
// segments that run along the width; where images are narrow, its segments are short and are joined by copying. With
// few channels (a first layer's three) the input is copied with its padding around it: then every tap reads everywhere,
// and all taps make one product. The sum runs over chunks of fixed size in their order: the result does not depend on
// the threads. As an exact sum (exact_sum.h) it is one over images: a chunk holds one at most, and each image's sums are
// added to float64 ones.
#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/conv_source.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kFewChannels = 16;
constexpr std::int64_t kShortSegment = 16;

template <typename T>
class WeightGradient {
 public:
  /// `exact`: the result is to be an exact sum.
  WeightGradient(const Tensor& x, const Tensor& dy, const ConvExtents& extents, std::int64_t group, bool exact)
      : e_(extents),
        w_(extents.weights()),
        x_(x.data<T>() + group * w_.channels),
        dy_(dy.data<T>() + group * w_.outputs),
        blocks_(w_.channels, w_.taps, parts_wanted(vectors(w_.outputs), kPanelVectors)),
        panels_(w_.outputs, panel_width(w_.outputs, blocks_.count())),
        few_channels_(w_.channels < kFewChannels),
        images_(exact ? 1 : images_of_chunk(extents)),
        chunks_(chunks_of(extents, images_)) {}

  /// R is double for an exact sum, else T.
  template <typename R>
  void compute(R* dw, bool accumulate) const {
    parallel_for(blocks_.count() * panels_.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      Memory memory(*this, !std::is_same_v<R, T>);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t block = unit / panels_.count();
        const std::int64_t panel = unit % panels_.count();
        const WeightPart part{panels_.first(panel), panels_.vectors(panel), blocks_.first(block), blocks_.size(block)};
        if constexpr (std::is_same_v<R, T>) {
          sum(part, memory);
          unpack_outputs(dw, memory.sums, w_, part, accumulate);
        } else {
          sum_exactly(part, memory);
          unpack_outputs(dw, memory.totals.template data<R>(), w_, of_doubles(part), accumulate);
        }
      }
    });
  }

 private:
  using S = Simd<T>;

  // One thread's.
  struct Memory {
    Memory(const WeightGradient& of, bool exact) {
      const std::int64_t rows = std::max(kChunkPixels, of.e_.horizontal.output);
      const std::int64_t of_panel = rows * kPanelVectors * S::kLanes;
      const std::int64_t of_sums = of.w_.taps * of.blocks_.longest() * kPanelVectors * S::kLanes;
      const std::int64_t of_input = of.few_channels_ ? of.padded_size() : rows * of.line();
      block = Tensor::empty({2 * of_panel + of_sums + of_input}, sizeof(T) == 4 ? DType::Float32 : DType::Float64);
      totals = Tensor::empty({exact ? of_sums : 0}, DType::Float64);
      panel = block.data<T>();
      joined_panel = panel + of_panel;
      sums = joined_panel + of_panel;
      input = sums + of_sums;
    }
    Tensor block;
    Tensor totals;    // of an exact sum, as sums
    T* panel;         // a chunk's gradients, one pixel a row
    T* joined_panel;  // those that a tap of short segments meets
    T* sums;          // (tap, channel) x (output), as unpack_outputs reads them
    T* input;         // a chunk's input with its padding, or what a tap of short segments reads
    std::vector<Segment> segments;
  };

  // What the tiles of one product read.
  struct Operands {
    const T* input;  // of the first line
    std::int64_t step;
    const T* panel;
  };

  // Between joined pixels: not a power of two, which would fill few sets of the cache.
  std::int64_t line() const { return (blocks_.longest() / S::kLanes + 2) * S::kLanes; }

  std::int64_t padded_size() const {
    const std::int64_t height = e_.vertical.input + 2 * e_.vertical.padding;
    const std::int64_t breadth = e_.horizontal.input + 2 * e_.horizontal.padding;
    return images_ * height * breadth * w_.channels;
  }

  static std::int64_t vectors(std::int64_t outputs) { return (outputs + S::kLanes - 1) / S::kLanes; }

  // How many blocks of channels give every thread a part, or how many panels, when there are `count` / `size` of the
  // others. What an element is does not depend on the cut.
  static std::int64_t parts_wanted(std::int64_t count, std::int64_t size) {
    const std::int64_t others = std::max<std::int64_t>(1, (count + size - 1) / size);
    return (num_threads() + others - 1) / others;
  }

  // Narrower panels where there are too few channels to cut.
  static std::int64_t panel_width(std::int64_t outputs, std::int64_t blocks) {
    const std::int64_t panels = parts_wanted(blocks, 1);
    return std::clamp<std::int64_t>((vectors(outputs) + panels - 1) / panels, 1, kPanelVectors);
  }

  static std::int64_t width(const WeightPart& part) { return part.vectors * S::kLanes; }

  static WeightPart of_doubles(WeightPart part) {
    part.vectors *= S::kLanes / Simd<double>::kLanes;
    return part;
  }

  void sum(const WeightPart& part, Memory& memory) const {
    if (chunks_.empty()) std::fill_n(memory.sums, w_.taps * part.depth * width(part), T{0});
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) add_chunk(chunks_[chunk], part, memory, chunk > 0);
  }

  void sum_exactly(const WeightPart& part, Memory& memory) const {
    const std::int64_t count = w_.taps * part.depth * width(part);
    double* const totals = memory.totals.template data<double>();
    std::fill_n(totals, count, 0.0);
    for (const Chunk& chunk : chunks_) {
      add_chunk(chunk, part, memory, chunk.rows.begin > 0);
      if (chunk.rows.end < e_.vertical.output) continue;
      for (std::int64_t i = 0; i < count; ++i) totals[i] += rounded(static_cast<double>(memory.sums[i]));
    }
  }

  void add_chunk(const Chunk& chunk, const WeightPart& part, Memory& memory, bool accumulate) const {
    pack_gradient(chunk, part, memory.panel);
    ConvSource<T> source{x_, e_.vertical, e_.horizontal, e_.channels};
    source.data += chunk.images.begin * source.image() + part.deep;
    if (few_channels_) {
      source = with_padding(memory.input, source, chunk.images.count(), w_.channels);
      source.find_segments(chunk, 0, 0, memory.segments);
      multiply({source.data, source.step(), memory.panel}, tap_lines(source), part, memory, memory.sums, accumulate);
      return;
    }
    std::vector<std::int64_t> lines(static_cast<std::size_t>(part.depth));
    std::iota(lines.begin(), lines.end(), std::int64_t{0});
    for (std::int64_t tap = 0; tap < w_.taps; ++tap) {
      const std::int64_t pixels =
          source.find_segments(chunk, tap / e_.horizontal.kernel, tap % e_.horizontal.kernel, memory.segments);
      Operands operands{source.data, source.step(), memory.panel};
      if (pixels < static_cast<std::int64_t>(memory.segments.size()) * kShortSegment) {
        operands = join_segments(operands, part, memory);
      }
      multiply(operands, lines, part, memory, memory.sums + tap * part.depth * width(part), accumulate);
    }
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
        copy_line(memory.input + pixels * line(), apart.input + segment.offset + i * apart.step, part.depth);
        copy_line(memory.joined_panel + pixels * width(part), apart.panel + (segment.panel_row + i) * width(part),
                  width(part));
      }
    }
    memory.segments.assign(1, {0, 0, pixels});
    return {memory.input, line(), memory.joined_panel};
  }

  // To memory that has room for whole vectors; what fills the last one is zero.
  static void copy_line(T* to, const T* from, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + S::kLanes <= count; i += S::kLanes) S::store(to + i, S::load(from + i));
    if (i < count) S::store(to + i, S::load_partial(from + i, count - i));
  }

  void pack_gradient(const Chunk& chunk, const WeightPart& part, T* panel) const {
    const std::int64_t columns = std::min(width(part), w_.outputs - part.column);
    for (std::int64_t n = chunk.images.begin; n < chunk.images.end; ++n) {
      for (std::int64_t row = chunk.rows.begin; row < chunk.rows.end; ++row) {
        const std::int64_t pixel = (n * e_.vertical.output + row) * e_.horizontal.output;
        for (std::int64_t column = 0; column < e_.horizontal.output; ++column) {
          const T* from = dy_ + (pixel + column) * e_.outputs + part.column;
          T* to = panel + chunk.pixel(n - chunk.images.begin, row, column, e_.horizontal.output) * width(part);
          copy_line(to, from, columns);
        }
      }
    }
  }

  // sums, one row a line, (+)= what the lines read times the panel.
  void multiply(const Operands& operands, const std::vector<std::int64_t>& lines, const WeightPart& part,
                const Memory& memory, T* sums, bool accumulate) const {
    GatheredTile<T> tile;
    tile.step = operands.step;
    tile.panel = operands.panel;
    tile.vectors = part.vectors;
    tile.columns = width(part);
    tile.accumulate = accumulate;
    const EvenParts tiles(static_cast<std::int64_t>(lines.size()), kTileRows);
    std::size_t next = 0;
    for (std::int64_t t = 0; t < tiles.parts; ++t) {
      tile.rows = static_cast<int>(tiles.size(t));
      for (int i = 0; i < tile.rows; ++i, ++next, sums += width(part)) {
        tile.a[i] = operands.input + lines[next];
        tile.c[i] = sums;
      }
      run_tile(tile, memory.segments);
    }
  }

  const ConvExtents& e_;
  WeightExtents w_;
  const T* x_;
  const T* dy_;
  DepthBlocks<T> blocks_;
  Panels<T> panels_;
  bool few_channels_;
  std::int64_t images_;  // of a chunk at most
  std::vector<Chunk> chunks_;
};

}  // namespace

void conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window, bool accumulate) {
  if (dw.numel() == 0) return;
  const ConvExtents extents(x, dw, dy, window);
  const bool exact = dw.dtype() != x.dtype();
  if (is_depthwise(extents)) {
    if (!exact) return depthwise_conv2d_weight_gradient(dw, dy, x, extents, accumulate);
    return depthwise_conv2d_weight_gradient(dw, dy.to(DType::Float64), x.to(DType::Float64), extents, accumulate);
  }
  const auto compute = [&]<typename T, typename R>() {
    for (std::int64_t group = 0; group < extents.groups; ++group) {
      R* const of_group = dw.data<R>() + group * extents.weights().numel();
      WeightGradient<T>(x, dy, extents, group, exact).compute(of_group, accumulate);
    }
  };
  if (exact) return compute.template operator()<float, double>();
  with_float_type(dw.dtype(), [&]<typename T>() { compute.template operator()<T, T>(); });
}

}  // namespace tutti::tensor::cpu
