// Convolution, and the gradient of its input, which is a convolution of the result's gradient.
//
// Every pixel of the result is a row of a matrix product: (taps, channels read) times the packed weights. Pixels whose
// taps lie alike (conv_taps.h) share the segments that say where their taps are. Work is cut into a panel of columns
// times a part of the batch.
#include <tutti/tensor/cpu/conv.h>
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

// The pixels of one class of rows and one of columns, and where their taps are.
struct PixelClass {
  const std::vector<TapPlace>* rows;
  const std::vector<TapPlace>* columns;
  SegmentBlocks blocks;
};

template <typename T>
struct Pass {
  Image<const T> from;
  Image<T> to;
  std::int64_t batch;
  std::vector<TapClass> rows;
  std::vector<TapClass> columns;
  std::int64_t kernel_width;
  std::int64_t groups;
  const T* bias;
  bool relu;
  bool accumulate;

  std::int64_t depth() const { return from.channels / groups; }  // read by one group
  std::int64_t breadth() const { return to.channels / groups; }  // computed by one group
};

template <typename T>
SegmentBlocks blocks_of_class(const Pass<T>& pass, const TapClass& rows, const TapClass& columns) {
  std::vector<Segment> segments;
  for (const Tap& row : rows.taps) {
    for (const Tap& column : columns.taps) {
      const std::int64_t offset = (row.distance * pass.from.width + column.distance) * pass.from.channels;
      const std::int64_t panel_row = (row.kernel * pass.kernel_width + column.kernel) * pass.depth();
      if (!segments.empty()) {
        Segment& last = segments.back();
        if (last.offset + last.length == offset && last.panel_row + last.length == panel_row) {
          last.length += pass.depth();
          continue;
        }
      }
      segments.push_back({offset, panel_row, pass.depth()});
    }
  }
  return blocks_of(segments);
}

template <typename T>
std::vector<PixelClass> pixel_classes(const Pass<T>& pass) {
  std::vector<PixelClass> classes;
  for (const TapClass& rows : pass.rows) {
    for (const TapClass& columns : pass.columns) {
      classes.push_back({&rows.places, &columns.places, blocks_of_class(pass, rows, columns)});
    }
  }
  return classes;
}

// Which columns of which group, and where their weights are.
template <typename T>
struct PanelJob {
  const T* panel;
  std::int64_t vectors;
  std::int64_t columns;
  std::int64_t group;
  std::int64_t first;  // column within the group
};

// The pixels of a class in images [begin, end), block by block, tile by tile.
template <typename T>
void run_class(const Pass<T>& pass, const PixelClass& pixels, const PanelJob<T>& job, std::int64_t begin,
               std::int64_t end) {
  const auto width = static_cast<std::int64_t>(pixels.columns->size());
  const std::int64_t plane = static_cast<std::int64_t>(pixels.rows->size()) * width;
  const EvenParts tiles((end - begin) * plane, kTileRows);
  const std::int64_t to_channel = job.group * pass.breadth() + job.first;
  for (std::size_t b = 0; b < pixels.blocks.size(); ++b) {
    const bool last = b + 1 == pixels.blocks.size();
    GatheredTile<T> tile;
    tile.panel = job.panel;
    tile.vectors = job.vectors;
    tile.columns = job.columns;
    tile.accumulate = pass.accumulate || b > 0;
    tile.bias = last && pass.bias != nullptr ? pass.bias + to_channel : nullptr;
    tile.relu = last && pass.relu;
    std::int64_t n = begin;
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
      run_tile(tile, pixels.blocks[b]);
    }
  }
}

// pack(panel memory, group, first column, vectors)
template <typename T, typename Pack>
void run_pass(const Pass<T>& pass, std::int64_t panel_rows, Pack pack) {
  const Panels<T> panels(pass.breadth());
  const std::int64_t group_size = panel_rows * panels.width();
  Tensor packed = Tensor::empty({pass.groups * group_size}, sizeof(T) == 4 ? DType::Float32 : DType::Float64);
  T* memory = packed.data<T>();
  const std::int64_t jobs = pass.groups * panels.count();
  parallel_for(jobs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t job = begin; job < end; ++job) {
      const std::int64_t group = job / panels.count();
      const std::int64_t panel = job % panels.count();
      const std::int64_t first = panels.first(panel);
      pack(memory + group * group_size + first * panel_rows, group, first, panels.vectors(panel));
    }
  });

  const std::vector<PixelClass> classes = pixel_classes(pass);
  constexpr std::int64_t kPartsPerThread = 4;
  const std::int64_t wanted = num_threads() == 1 ? 1 : num_threads() * kPartsPerThread;
  const EvenParts images(pass.batch, std::max<std::int64_t>(1, pass.batch * jobs / wanted));
  parallel_for(jobs * images.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t job = unit % jobs;
      const std::int64_t part = unit / jobs;
      const std::int64_t panel = job % panels.count();
      const std::int64_t first = panels.first(panel);
      const std::int64_t group = job / panels.count();
      const PanelJob<T> work{.panel = memory + group * group_size + first * panel_rows,
                             .vectors = panels.vectors(panel),
                             .columns = std::min(panels.vectors(panel) * Simd<T>::kLanes, pass.breadth() - first),
                             .group = group,
                             .first = first};
      const std::int64_t image = part * images.base + std::min(part, images.longer);
      for (const PixelClass& pixels : classes) run_class(pass, pixels, work, image, image + images.size(part));
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
  with_float_type(y.dtype(), [&]<typename T>() {
    const WeightExtents weights = extents.weights();
    const Pass<T> pass{.from = image_of<T>(x),
                       .to = image_of<T>(y),
                       .batch = extents.batch,
                       .rows = forward_classes(extents.vertical),
                       .columns = forward_classes(extents.horizontal),
                       .kernel_width = extents.horizontal.kernel,
                       .groups = extents.groups,
                       .bias = bias.defined() ? bias.data<T>() : nullptr,
                       .relu = relu,
                       .accumulate = false};
    run_pass<T>(pass, weights.taps * weights.channels,
                [&](T* panel, std::int64_t group, std::int64_t first, std::int64_t vectors) {
                  pack_outputs(panel, w.data<T>() + group * weights.numel(), weights, first, vectors);
                });
  });
}

void conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvWindow& window, bool accumulate) {
  if (dx.numel() == 0) return;
  const ConvExtents extents(dx, w, dy, window);
  if (is_depthwise(extents)) return depthwise_conv2d_input_gradient(dx, dy, w, extents, accumulate);
  with_float_type(dx.dtype(), [&]<typename T>() {
    const WeightExtents weights = extents.weights();
    const Pass<T> pass{.from = image_of<T>(dy),
                       .to = image_of<T>(dx),
                       .batch = extents.batch,
                       .rows = backward_classes(extents.vertical),
                       .columns = backward_classes(extents.horizontal),
                       .kernel_width = extents.horizontal.kernel,
                       .groups = extents.groups,
                       .bias = nullptr,
                       .relu = false,
                       .accumulate = accumulate};
    run_pass<T>(pass, weights.taps * weights.outputs,
                [&](T* panel, std::int64_t group, std::int64_t first, std::int64_t vectors) {
                  pack_channels(panel, w.data<T>() + group * weights.numel(), weights, first, vectors);
                });
  });
}

}  // namespace tutti::tensor::cpu
