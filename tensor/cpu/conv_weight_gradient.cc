// The gradient of a convolution's weights: for each tap (tap, channel) x (output) = sum over pixels of what the tap
// read, transposed, times the result's gradient.
//
// Work is cut into blocks of channels times panels of outputs; for each tap, kPiece pixels are laid out at a time: the
// channels that the tap read, pixel after pixel, and the panel of the gradient beside them. With few channels (a first
// layer's three) a whole row of taps is taken at once, with zeros for what lies outside of the image. The sum runs over
// the pixels in their order, in pieces of fixed length: the result does not depend on the threads.
#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kPiece = 256;
constexpr std::int64_t kPixels = 1024;  // of images taken together
constexpr std::int64_t kFewChannels = 16;

// Consecutive columns of the kernel in one of its rows.
struct TapRun {
  std::int64_t row;
  std::int64_t first;
  std::int64_t count;
};

// Output positions.
struct Reach {
  std::int64_t begin;
  std::int64_t end;
};

// Those whose tap lies in the image.
Reach reach_of(const ConvAxis& axis, std::int64_t tap) {
  const std::int64_t shift = axis.padding - tap * axis.dilation;  // input = output * stride - shift
  const std::int64_t begin = shift > 0 ? (shift + axis.stride - 1) / axis.stride : 0;
  const std::int64_t last = axis.input - 1 + shift;
  const std::int64_t end = last < 0 ? 0 : std::min(axis.output, last / axis.stride + 1);
  return {std::min(begin, end), end};
}

template <typename T>
class WeightGradient {
 public:
  WeightGradient(const Tensor& x, const Tensor& dy, const ConvExtents& extents, std::int64_t group)
      : e_(extents),
        w_(extents.weights()),
        x_(x.data<T>() + group * w_.channels),
        dy_(dy.data<T>() + group * w_.outputs),
        blocks_(w_.channels, w_.taps),
        panels_(w_.outputs, panel_width(w_.outputs, blocks_.count())),
        run_(w_.channels < kFewChannels ? extents.horizontal.kernel : 1) {}

  void compute(T* dw, bool accumulate) const {
    parallel_for(blocks_.count() * panels_.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      Memory memory(blocks_.longest(), run_, w_.taps);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t block = unit / panels_.count();
        const std::int64_t panel = unit % panels_.count();
        const WeightPart part{panels_.first(panel), panels_.vectors(panel), blocks_.first(block), blocks_.size(block)};
        compute_part(part, memory);
        unpack_outputs(dw, memory.sums, w_, part, accumulate);
      }
    });
  }

 private:
  using S = Simd<T>;

  // One thread's: the pixels laid out, and the sums.
  struct Memory {
    Memory(std::int64_t depth, std::int64_t run, std::int64_t taps)
        : line((run * depth + S::kLanes - 1) / S::kLanes * S::kLanes + S::kLanes),
          block(Tensor::empty({kPiece * line + (kPiece + taps * depth) * kPanelVectors * S::kLanes},
                              sizeof(T) == 4 ? DType::Float32 : DType::Float64)),
          lines(block.template data<T>()),
          panel(lines + kPiece * line),
          sums(panel + kPiece * kPanelVectors * S::kLanes) {}
    std::int64_t line;  // distance between pixels: not a power of two, which would fill few sets of the cache
    Tensor block;
    T* lines;
    T* panel;
    T* sums;                  // (tap, channel) x (output), as unpack_outputs reads them
    std::int64_t filled = 0;  // pixels
  };

  // Narrower panels where there would be too few parts for the threads. What a column is does not depend on it.
  static std::int64_t panel_width(std::int64_t outputs, std::int64_t blocks) {
    const std::int64_t vectors = (outputs + S::kLanes - 1) / S::kLanes;
    const std::int64_t panels = (num_threads() + blocks - 1) / blocks;
    return std::clamp<std::int64_t>((vectors + panels - 1) / panels, 1, kPanelVectors);
  }

  // Some images at a time, which then stay in the cache for all taps.
  void compute_part(const WeightPart& part, Memory& memory) const {
    const std::int64_t plane = e_.vertical.output * e_.horizontal.output;
    const std::int64_t images = std::max<std::int64_t>(1, kPixels / plane);
    for (std::int64_t n = 0; n < e_.batch || n == 0; n += images) {
      for (std::int64_t row = 0; row < e_.vertical.kernel; ++row) {
        for (std::int64_t first = 0; first < e_.horizontal.kernel; first += run_) {
          compute_taps({row, first, run_}, n, std::min(e_.batch, n + images), part, memory);
        }
      }
    }
  }

  // Images [begin, end). The first ones (0) start the sums, the others add to them.
  void compute_taps(const TapRun& taps, std::int64_t begin, std::int64_t end, const WeightPart& part,
                    Memory& memory) const {
    const Reach down = reach_of(e_.vertical, taps.row);
    const Reach along = taps.count == 1 ? reach_of(e_.horizontal, taps.first) : Reach{0, e_.horizontal.output};
    bool accumulate = begin > 0;
    memory.filled = 0;
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t oh = down.begin; oh < down.end; ++oh) {
        for (std::int64_t ow = along.begin; ow < along.end;) {
          const std::int64_t stop = std::min(along.end, ow + kPiece - memory.filled);
          lay_out_input(n, oh, {ow, stop}, taps, part, memory);
          lay_out_gradient(n, oh, {ow, stop}, part, memory);
          memory.filled += stop - ow;
          ow = stop;
          if (memory.filled < kPiece) continue;
          multiply(taps, part, memory, accumulate);
          accumulate = true;
        }
      }
    }
    if (memory.filled > 0 || !accumulate) multiply(taps, part, memory, accumulate);
  }

  // What the taps read for the output positions `along` of one row.
  void lay_out_input(std::int64_t n, std::int64_t oh, Reach along, const TapRun& taps, const WeightPart& part,
                     Memory& memory) const {
    const ConvAxis& v = e_.vertical;
    const ConvAxis& h = e_.horizontal;
    const std::int64_t ih = oh * v.stride - v.padding + taps.row * v.dilation;
    const T* const row = x_ + (n * v.input + ih) * h.input * e_.channels + part.deep;
    T* to = memory.lines + memory.filled * memory.line;
    for (std::int64_t ow = along.begin; ow < along.end; ++ow, to += memory.line) {
      const std::int64_t iw = ow * h.stride - h.padding + taps.first * h.dilation;
      if (taps.count == 1) {
        copy_line(to, row + iw * e_.channels, part.depth);
        continue;
      }
      // The taps [inside, outside) are in the image.
      const std::int64_t inside = first_at_least(0 - iw, h.dilation, taps.count);
      const std::int64_t outside = std::max(inside, first_at_least(h.input - iw, h.dilation, taps.count));
      std::fill_n(to, inside * part.depth, T{0});
      if (h.dilation == 1 && part.depth == e_.channels) {
        copy_line(to + inside * part.depth, row + (iw + inside) * part.depth, (outside - inside) * part.depth);
      } else {
        for (std::int64_t tap = inside; tap < outside; ++tap) {
          std::copy_n(row + (iw + tap * h.dilation) * e_.channels, part.depth, to + tap * part.depth);
        }
      }
      std::fill_n(to + outside * part.depth, (taps.count - outside) * part.depth, T{0});
    }
  }

  // The first tap of 0 to count that lies `distance` positions or more away from tap 0.
  static std::int64_t first_at_least(std::int64_t distance, std::int64_t dilation, std::int64_t count) {
    return std::clamp<std::int64_t>((distance + dilation - 1) / dilation, 0, count);
  }

  void lay_out_gradient(std::int64_t n, std::int64_t oh, Reach along, const WeightPart& part, Memory& memory) const {
    const std::int64_t width = part.vectors * S::kLanes;
    const std::int64_t columns = std::min(width, w_.outputs - part.column);
    const T* from =
        dy_ + ((n * e_.vertical.output + oh) * e_.horizontal.output + along.begin) * e_.outputs + part.column;
    T* to = memory.panel + memory.filled * width;
    for (std::int64_t ow = along.begin; ow < along.end; ++ow, from += e_.outputs, to += width) {
      copy_line(to, from, columns);
    }
  }

  // To memory that has room for whole vectors; what fills the last one is zero.
  static void copy_line(T* to, const T* from, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + S::kLanes <= count; i += S::kLanes) S::store(to + i, S::load(from + i));
    if (i < count) S::store(to + i, S::load_partial(from + i, count - i));
  }

  void multiply(const TapRun& taps, const WeightPart& part, Memory& memory, bool accumulate) const {
    const std::int64_t tap = taps.row * e_.horizontal.kernel + taps.first;
    T* const sums = memory.sums + tap * part.depth * part.vectors * S::kLanes;
    const std::vector<Segment> all{{0, 0, memory.filled}};
    GatheredTile<T> tile;
    tile.step = memory.line;
    tile.panel = memory.panel;
    tile.vectors = part.vectors;
    tile.columns = part.vectors * S::kLanes;
    tile.accumulate = accumulate;
    const EvenParts tiles(taps.count * part.depth, kTileRows);
    std::int64_t next = 0;
    for (std::int64_t t = 0; t < tiles.parts; ++t) {
      tile.rows = static_cast<int>(tiles.size(t));
      for (int i = 0; i < tile.rows; ++i, ++next) {
        tile.a[i] = memory.lines + next;
        tile.c[i] = sums + next * part.vectors * S::kLanes;
      }
      run_tile(tile, all);
    }
    memory.filled = 0;
  }

  const ConvExtents& e_;
  WeightExtents w_;
  const T* x_;
  const T* dy_;
  DepthBlocks<T> blocks_;
  Panels<T> panels_;
  std::int64_t run_;  // taps taken at once
};

}  // namespace

void conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window, bool accumulate) {
  if (dw.numel() == 0) return;
  const ConvExtents extents(x, dw, dy, window);
  if (is_depthwise(extents)) return depthwise_conv2d_weight_gradient(dw, dy, x, extents, accumulate);
  with_float_type(dw.dtype(), [&]<typename T>() {
    for (std::int64_t group = 0; group < extents.groups; ++group) {
      T* const of_group = dw.data<T>() + group * extents.weights().numel();
      WeightGradient<T>(x, dy, extents, group).compute(of_group, accumulate);
    }
  });
}

}  // namespace tutti::tensor::cpu
