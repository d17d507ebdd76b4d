// What a tap of a convolution reads for some of the pixels, as segments. Private to tensor/cpu; used by the gradient of
// the weights (conv_weight_gradient.cc).
#pragma once

#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/gathered_product.h>

#include <cstdint>
#include <vector>

namespace tutti::tensor::cpu {

inline constexpr std::int64_t kChunkPixels = 1024;

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t count() const { return end - begin; }
};

/// Output pixels: some images whole, or some rows of one.
struct Chunk {
  Range images;
  Range rows;

  /// The number of a pixel within the chunk, n counted from its first image.
  std::int64_t pixel(std::int64_t n, std::int64_t row, std::int64_t column, std::int64_t width) const {
    return (n * rows.count() + row - rows.begin) * width + column;
  }
};

/// The images that a chunk of about kChunkPixels holds at most.
std::int64_t images_of_chunk(const ConvExtents& extents);
/// All pixels in chunks of so many images, or of some rows of one. They depend on the extents alone.
std::vector<Chunk> chunks_of(const ConvExtents& extents, std::int64_t images);

/// Images that taps read.
template <typename T>
struct ConvSource {
  const T* data;  // image 0 of the chunk
  ConvAxis vertical;
  ConvAxis horizontal;
  std::int64_t channels;  // the distance between pixels

  std::int64_t image() const { return vertical.input * horizontal.input * channels; }
  std::int64_t offset(std::int64_t row, std::int64_t column) const {
    return (row * horizontal.input + column) * channels;
  }
  /// Between neighbours of a segment.
  std::int64_t step() const { return horizontal.stride * channels; }

  /// What one tap reads: a segment's panel_row is the number of its first pixel. Pixels for which the tap lies outside
  /// of the image are left out. Returns how many there are.
  std::int64_t find_segments(const Chunk& chunk, std::int64_t kernel_row, std::int64_t kernel_column,
                             std::vector<Segment>& segments) const;
};

/// Copies images with their padding into `memory`, the first `channels` channels of each pixel.
template <typename T>
ConvSource<T> with_padding(T* memory, const ConvSource<T>& source, std::int64_t images, std::int64_t channels);

}  // namespace tutti::tensor::cpu
