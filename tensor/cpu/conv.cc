// Convolution, and the gradient of its input, which is a convolution of the result's gradient.
//
// Every pixel of the result is a row of a matrix product: (taps, channels read) times the packed weights. Pixels whose
// taps lie alike (conv_taps.h) share the segments that say where their taps are. Work is cut into panels of columns
// times parts of the batch, and within those into blocks of the channels that are read.
#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/conv_winograd.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

template <typename T>
struct Image {
  T* data;
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;  // of all groups: the distance between pixels

  T* pixel(std::int64_t n, std::int64_t row, std::int64_t column) const {
    return data + ((n * height + row) * width + column) * channels;
  }
};

template <typename T>
struct Pass {
  Image<const T> from;
  Image<T> to;
  std::int64_t batch;
  std::vector<TapClass> rows;
  std::vector<TapClass> columns;
  std::int64_t taps;
  std::int64_t kernel_width;
  std::int64_t groups;
  const T* bias;
  bool relu;
  bool accumulate;

  std::int64_t depth() const { return from.channels / groups; }  // read by one group
  std::int64_t breadth() const { return to.channels / groups; }  // computed by one group
};

// The pixels of one class of rows and one of columns, and where their taps are: segments for each block of depth.
struct PixelClass {
  const std::vector<TapPlace>* rows;
  const std::vector<TapPlace>* columns;
  std::vector<std::vector<Segment>> segments;
};

template <typename T>
std::vector<Segment> segments_of(const Pass<T>& pass, const TapClass& rows, const TapClass& columns, std::int64_t deep,
                                 std::int64_t depth) {
  std::vector<Segment> segments;
  for (const Tap& row : rows.taps) {
    for (const Tap& column : columns.taps) {
      const std::int64_t offset = (row.distance * pass.from.width + column.distance) * pass.from.channels + deep;
      const std::int64_t panel_row = (row.kernel * pass.kernel_width + column.kernel) * depth;
      Segment* last = segments.empty() ? nullptr : &segments.back();
      if (last != nullptr && last->offset + last->length == offset && last->panel_row + last->length == panel_row) {
        last->length += depth;  // neighbours in memory, as taps of a row are when all channels are read
      } else {
        segments.push_back({offset, panel_row, depth});
      }
    }
  }
  return segments;
}

template <typename T>
std::vector<PixelClass> pixel_classes(const Pass<T>& pass, const DepthBlocks<T>& blocks) {
  std::vector<PixelClass> classes;
  for (const TapClass& rows : pass.rows) {
    for (const TapClass& columns : pass.columns) {
      PixelClass& added = classes.emplace_back(PixelClass{&rows.places, &columns.places, {}});
      for (std::int64_t b = 0; b < blocks.count(); ++b) {
        added.segments.push_back(segments_of(pass, rows, columns, blocks.first(b), blocks.size(b)));
      }
    }
  }
  return classes;
}

// Columns of one group in some images.
struct Job {
  std::int64_t group;
  std::int64_t column;  // within the group
  std::int64_t vectors;
  std::int64_t begin;  // images
  std::int64_t end;
};

// One block of depth, tile by tile, over the pixels of a class.
template <typename T>
void run_class(const Pass<T>& pass, const PixelClass& pixels, const Job& job, const T* panel, std::size_t block) {
  const bool last = block + 1 == pixels.segments.size();
  const std::int64_t to_channel = job.group * pass.breadth() + job.column;
  GatheredTile<T> tile;
  tile.panel = panel;
  tile.vectors = job.vectors;
  tile.columns = std::min(job.vectors * Simd<T>::kLanes, pass.breadth() - job.column);
  tile.accumulate = pass.accumulate || block > 0;
  tile.bias = last && pass.bias != nullptr ? pass.bias + to_channel : nullptr;
  tile.relu = last && pass.relu;
  const auto plane = static_cast<std::int64_t>(pixels.rows->size() * pixels.columns->size());
  const EvenParts tiles((job.end - job.begin) * plane, kTileRows);
  std::int64_t n = job.begin;
  std::size_t row = 0;
  std::size_t column = 0;
  for (std::int64_t t = 0; t < tiles.parts; ++t) {
    tile.rows = static_cast<int>(tiles.size(t));
    for (int i = 0; i < tile.rows; ++i) {
      const TapPlace& y = (*pixels.rows)[row];
      const TapPlace& x = (*pixels.columns)[column];
      tile.a[i] = pass.from.pixel(n, y.from, x.from) + job.group * pass.depth();
      tile.c[i] = pass.to.pixel(n, y.to, x.to) + to_channel;
      if (++column < pixels.columns->size()) continue;
      column = 0;
      if (++row < pixels.rows->size()) continue;
      row = 0;
      ++n;
    }
    run_tile(tile, pixels.segments[block]);
  }
}

// pack(panel memory, group, part) lays out the weights. A panel is packed where it is used, while it is in the cache.
template <typename T, typename Pack>
void run_pass(const Pass<T>& pass, Pack pack) {
  const Panels<T> panels(pass.breadth());
  const DepthBlocks<T> blocks(pass.depth(), pass.taps);
  const std::vector<PixelClass> classes = pixel_classes(pass, blocks);
  const std::int64_t columns = pass.groups * panels.count();
  constexpr std::int64_t kJobsPerThread = 4;
  const std::int64_t wanted = num_threads() == 1 ? 1 : num_threads() * kJobsPerThread;
  const EvenParts images(pass.batch, std::max<std::int64_t>(1, pass.batch * columns / wanted));
  parallel_for(columns * images.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    Tensor memory = Tensor::empty({pass.taps * blocks.longest() * kPanelVectors * Simd<T>::kLanes},
                                  sizeof(T) == 4 ? DType::Float32 : DType::Float64);
    T* const panel = memory.data<T>();
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t cut = unit % columns % panels.count();
      const std::int64_t part = unit / columns;
      const std::int64_t image = images.first(part);
      const Job job{.group = unit % columns / panels.count(),
                    .column = panels.first(cut),
                    .vectors = panels.vectors(cut),
                    .begin = image,
                    .end = image + images.size(part)};
      for (std::int64_t b = 0; b < blocks.count(); ++b) {
        pack(panel, job.group, WeightPart{job.column, job.vectors, blocks.first(b), blocks.size(b)});
        for (const PixelClass& pixels : classes) run_class(pass, pixels, job, panel, static_cast<std::size_t>(b));
      }
    }
  });
}

template <typename T>
Image<const T> image_of(const Tensor& tensor) {
  return {tensor.data<T>(), tensor.shape()[1], tensor.shape()[2], tensor.shape()[3]};
}

template <typename T>
Image<T> image_of(Tensor& tensor) {
  return {tensor.data<T>(), tensor.shape()[1], tensor.shape()[2], tensor.shape()[3]};
}

}  // namespace

void conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& window, bool relu) {
  if (y.numel() == 0) return;
  const ConvExtents extents(x, w, y, window);
  if (is_depthwise(extents)) return depthwise_conv2d(y, x, w, bias, extents, relu);
  if (winograd_wins(extents)) return winograd_conv2d(y, x, w, bias, extents, relu);
  with_float_type(y.dtype(), [&]<typename T>() {
    const WeightExtents weights = extents.weights();
    const Pass<T> pass{.from = image_of<T>(x),
                       .to = image_of<T>(y),
                       .batch = extents.batch,
                       .rows = forward_classes(extents.vertical),
                       .columns = forward_classes(extents.horizontal),
                       .taps = weights.taps,
                       .kernel_width = extents.horizontal.kernel,
                       .groups = extents.groups,
                       .bias = bias.defined() ? bias.data<T>() : nullptr,
                       .relu = relu,
                       .accumulate = false};
    run_pass(pass, [&](T* panel, std::int64_t group, const WeightPart& part) {
      pack_outputs(panel, w.data<T>() + group * weights.numel(), weights, part);
    });
  });
}

void conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvWindow& window, bool accumulate) {
  if (dx.numel() == 0) return;
  const ConvExtents extents(dx, w, dy, window);
  if (is_depthwise(extents)) return depthwise_conv2d_input_gradient(dx, dy, w, extents, accumulate);
  if (winograd_wins_backward(extents)) return winograd_conv2d_input_gradient(dx, dy, w, extents, accumulate);
  with_float_type(dx.dtype(), [&]<typename T>() {
    const WeightExtents weights = extents.weights();
    const Pass<T> pass{.from = image_of<T>(dy),
                       .to = image_of<T>(dx),
                       .batch = extents.batch,
                       .rows = backward_classes(extents.vertical),
                       .columns = backward_classes(extents.horizontal),
                       .taps = weights.taps,
                       .kernel_width = extents.horizontal.kernel,
                       .groups = extents.groups,
                       .bias = nullptr,
                       .relu = false,
                       .accumulate = accumulate};
    run_pass(pass, [&](T* panel, std::int64_t group, const WeightPart& part) {
      pack_channels(panel, w.data<T>() + group * weights.numel(), weights, part);
    });
  });
}

}  // namespace tutti::tensor::cpu
