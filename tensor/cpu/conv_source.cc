#include <tutti/tensor/cpu/conv_source.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

// The output positions whose tap lies in the image.
Range reach_of(const ConvAxis& axis, std::int64_t tap) {
  const std::int64_t shift = axis.padding - tap * axis.dilation;  // input = output * stride - shift
  const std::int64_t begin = shift > 0 ? (shift + axis.stride - 1) / axis.stride : 0;
  const std::int64_t last = axis.input - 1 + shift;
  const std::int64_t end = last < 0 ? 0 : std::min(axis.output, last / axis.stride + 1);
  return {std::min(begin, end), end};
}

}  // namespace

std::int64_t images_of_chunk(const ConvExtents& extents) {
  const std::int64_t plane = extents.vertical.output * extents.horizontal.output;
  return std::min(extents.batch, std::max<std::int64_t>(1, kChunkPixels / plane));
}

std::vector<Chunk> chunks_of(const ConvExtents& extents, std::int64_t images) {
  const std::int64_t rows = extents.vertical.output;
  const std::int64_t step = std::clamp<std::int64_t>(kChunkPixels / extents.horizontal.output, 1, rows);
  std::vector<Chunk> chunks;
  for (std::int64_t n = 0; n < extents.batch; n += images) {
    for (std::int64_t row = 0; row < rows; row += step) {
      chunks.push_back({{n, std::min(extents.batch, n + images)}, {row, std::min(rows, row + step)}});
    }
  }
  return chunks;
}

template <typename T>
std::int64_t ConvSource<T>::find_segments(const Chunk& chunk, std::int64_t kernel_row, std::int64_t kernel_column,
                                          std::vector<Segment>& segments) const {
  segments.clear();
  const Range down = reach_of(vertical, kernel_row);
  const Range along = reach_of(horizontal, kernel_column);
  if (along.count() == 0) return 0;
  std::int64_t pixels = 0;
  const std::int64_t column =
      along.begin * horizontal.stride - horizontal.padding + kernel_column * horizontal.dilation;
  const std::int64_t end = std::min(down.end, chunk.rows.end);
  for (std::int64_t n = 0; n < chunk.images.count(); ++n) {
    for (std::int64_t row = std::max(down.begin, chunk.rows.begin); row < end; ++row) {
      const std::int64_t from = row * vertical.stride - vertical.padding + kernel_row * vertical.dilation;
      const Segment next{n * image() + offset(from, column), chunk.pixel(n, row, along.begin, horizontal.output),
                         along.count()};
      Segment* last = segments.empty() ? nullptr : &segments.back();
      if (last != nullptr && last->offset + last->length * step() == next.offset &&
          last->panel_row + last->length == next.panel_row) {
        last->length += next.length;
      } else {
        segments.push_back(next);
      }
      pixels += next.length;
    }
  }
  return pixels;
}

template <typename T>
ConvSource<T> with_padding(T* memory, const ConvSource<T>& source, std::int64_t images, std::int64_t channels) {
  ConvSource<T> padded = source;
  padded.data = memory;
  padded.channels = channels;
  for (ConvAxis* axis : {&padded.vertical, &padded.horizontal}) {
    axis->input += 2 * axis->padding;
    axis->padding = 0;
  }
  std::fill_n(memory, images * padded.image(), T{0});
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t row = 0; row < source.vertical.input; ++row) {
      const T* from = source.data + n * source.image() + source.offset(row, 0);
      T* to = memory + n * padded.image() + padded.offset(row + source.vertical.padding, source.horizontal.padding);
      for (std::int64_t column = 0; column < source.horizontal.input; ++column) {
        for (std::int64_t c = 0; c < channels; ++c) to[column * channels + c] = from[column * source.channels + c];
      }
    }
  }
  return padded;
}

template struct ConvSource<float>;
template struct ConvSource<double>;
template ConvSource<float> with_padding(float*, const ConvSource<float>&, std::int64_t, std::int64_t);
template ConvSource<double> with_padding(double*, const ConvSource<double>&, std::int64_t, std::int64_t);

}  // namespace tutti::tensor::cpu
