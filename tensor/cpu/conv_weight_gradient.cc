// The gradient of a convolution's weights: for each tap (tap, channel) x (output) = sum over pixels of what the tap
// read, transposed, times the result's gradient.
//
// Work is cut into taps times panels of outputs. A piece of kPiece pixels is laid out at a time: the channels that the
// tap read, pixel after pixel, and the panel of the gradient beside it. With few channels (a first layer's three) a
// whole row of taps is taken at once, its neighbours in memory too, with zeros for what lies outside of the image. The
// sum runs over the pixels in their order, in pieces of fixed length: the result does not depend on the threads.
#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kPiece = 256;
constexpr std::int64_t kFewChannels = 16;

// Consecutive columns of the kernel in one of its rows.
struct TapRun {
  std::int64_t row;
  std::int64_t first;
  std::int64_t count;
};

// The positions whose tap lies in the image.
struct Reach {
  std::int64_t begin;
  std::int64_t end;

  Reach(const ConvAxis& axis, std::int64_t tap) {
    const std::int64_t shift = axis.padding - tap * axis.dilation;  // input = output * stride - shift
    begin = shift > 0 ? (shift + axis.stride - 1) / axis.stride : 0;
    const std::int64_t last = axis.input - 1 + shift;
    end = last < 0 ? 0 : std::min(axis.output, last / axis.stride + 1);
    begin = std::min(begin, end);
  }
};

template <typename T>
class WeightGradient {
 public:
  WeightGradient(const Tensor& x, const Tensor& dy, const ConvExtents& extents, std::int64_t group)
      : e_(extents),
        w_(extents.weights()),
        x_(x.data<T>() + group * w_.channels),
        dy_(dy.data<T>() + group * w_.outputs),
        panels_(w_.outputs),
        run_(w_.channels < kFewChannels ? extents.horizontal.kernel : 1) {}

  /// Rows (tap, channel), panels_.width() apart.
  void compute(T* rows) const {
    const std::int64_t runs_per_row = e_.horizontal.kernel / run_;
    const std::int64_t runs = e_.vertical.kernel * runs_per_row;
    parallel_for(runs * panels_.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      Memory memory(*this);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t run = unit / panels_.count();
        compute_run(rows, {run / runs_per_row, run % runs_per_row * run_, run_}, unit % panels_.count(), memory);
      }
    });
  }

  std::int64_t row_length() const { return panels_.width(); }

 private:
  using S = Simd<T>;

  struct Memory {
    explicit Memory(const WeightGradient& of)
        : line((of.run_ * of.w_.channels + S::kLanes - 1) / S::kLanes * S::kLanes + S::kLanes),
          block(Tensor::empty({kPiece * (line + kPanelVectors * S::kLanes)},
                              sizeof(T) == 4 ? DType::Float32 : DType::Float64)),
          lines(block.template data<T>()),
          panel(lines + kPiece * line) {}
    std::int64_t line;  // distance between pixels: not a power of two, which would fill few sets of the cache
    Tensor block;
    T* lines;
    T* panel;
    std::int64_t filled = 0;
  };

  void compute_run(T* rows, const TapRun& taps, std::int64_t panel, Memory& memory) const {
    const Reach down(e_.vertical, taps.row);
    const Reach along = taps.count == 1 ? Reach(e_.horizontal, taps.first) : whole_width();
    T* to =
        rows + (taps.row * e_.horizontal.kernel + taps.first) * w_.channels * panels_.width() + panels_.first(panel);
    bool accumulate = false;
    memory.filled = 0;
    for (std::int64_t n = 0; n < e_.batch; ++n) {
      for (std::int64_t oh = down.begin; oh < down.end; ++oh) {
        for (std::int64_t ow = along.begin; ow < along.end; ++ow) {
          lay_out(n, oh, ow, taps, panel, memory);
          if (++memory.filled < kPiece) continue;
          multiply(to, taps.count * w_.channels, panel, memory, accumulate);
          accumulate = true;
        }
      }
    }
    if (memory.filled > 0 || !accumulate) multiply(to, taps.count * w_.channels, panel, memory, accumulate);
  }

  Reach whole_width() const {
    Reach all(e_.horizontal, 0);
    all.begin = 0;
    all.end = e_.horizontal.output;
    return all;
  }

  void lay_out(std::int64_t n, std::int64_t oh, std::int64_t ow, const TapRun& taps, std::int64_t panel,
               Memory& memory) const {
    const ConvAxis& v = e_.vertical;
    const ConvAxis& h = e_.horizontal;
    const std::int64_t ih = oh * v.stride - v.padding + taps.row * v.dilation;
    const std::int64_t iw = ow * h.stride - h.padding + taps.first * h.dilation;
    const T* const row = x_ + (n * v.input + ih) * h.input * e_.channels;
    T* to = memory.lines + memory.filled * memory.line;
    if (taps.count == 1) {
      copy_line(to, row + iw * e_.channels, w_.channels);
    } else {
      for (std::int64_t tap = 0; tap < taps.count; ++tap, to += w_.channels) {
        const std::int64_t at = iw + tap * h.dilation;
        const bool inside = at >= 0 && at < h.input;
        for (std::int64_t c = 0; c < w_.channels; ++c) to[c] = inside ? row[at * e_.channels + c] : T{0};
      }
    }
    const T* const gradient = dy_ + ((n * v.output + oh) * h.output + ow) * e_.outputs + panels_.first(panel);
    const std::int64_t width = panels_.vectors(panel) * S::kLanes;
    copy_line(memory.panel + memory.filled * width, gradient, std::min(width, w_.outputs - panels_.first(panel)));
  }

  // To memory that has room for whole vectors; what fills the last one is zero.
  static void copy_line(T* to, const T* from, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + S::kLanes <= count; i += S::kLanes) S::store(to + i, S::load(from + i));
    if (i < count) S::store(to + i, S::load_partial(from + i, count - i));
  }

  void multiply(T* to, std::int64_t count, std::int64_t panel, Memory& memory, bool accumulate) const {
    const std::vector<Segment> all{{0, 0, memory.filled}};
    GatheredTile<T> tile;
    tile.step = memory.line;
    tile.panel = memory.panel;
    tile.vectors = panels_.vectors(panel);
    tile.columns = tile.vectors * S::kLanes;
    tile.accumulate = accumulate;
    const EvenParts tiles(count, kTileRows);
    std::int64_t next = 0;
    for (std::int64_t t = 0; t < tiles.parts; ++t) {
      tile.rows = static_cast<int>(tiles.size(t));
      for (int i = 0; i < tile.rows; ++i, ++next) {
        tile.a[i] = memory.lines + next;
        tile.c[i] = to + next * panels_.width();
      }
      run_tile(tile, all);
    }
    memory.filled = 0;
  }

  const ConvExtents& e_;
  WeightExtents w_;
  const T* x_;
  const T* dy_;
  Panels<T> panels_;
  std::int64_t run_;  // taps taken at once
};

}  // namespace

void conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window, bool accumulate) {
  if (dw.numel() == 0) return;
  const ConvExtents extents(x, dw, dy, window);
  if (is_depthwise(extents)) return depthwise_conv2d_weight_gradient(dw, dy, x, extents, accumulate);
  with_float_type(dw.dtype(), [&]<typename T>() {
    const WeightExtents weights = extents.weights();
    for (std::int64_t group = 0; group < extents.groups; ++group) {
      const WeightGradient<T> gradient(x, dy, extents, group);
      Tensor rows = Tensor::empty({weights.taps * weights.channels, gradient.row_length()}, dw.dtype());
      gradient.compute(rows.data<T>());
      unpack_outputs(dw.data<T>() + group * weights.numel(), rows.data<T>(), gradient.row_length(), weights,
                     accumulate);
    }
  });
}

}  // namespace tutti::tensor::cpu
