// A triangle filter whose support grows with the reduction, so that every source pixel counts: rows first, then
// columns, each in fixed point with 22 fractional bits and rounded to 8 bits between. The scheme is libImaging's
// (https://github.com/python-pillow/Pillow/blob/main/src/libImaging/Resample.c).
#include <tutti/trainer/data/image/image.h>

#include <algorithm>
#include <cmath>

namespace tutti::trainer {
namespace {

constexpr int kFractionBits = 22;  // 8 bits of value, 2 of head room
constexpr double kOne = 1 << kFractionBits;
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

// Result i is the sum of weights[i * taps + k] * source[first[i] + k] over k < count[i].
struct Filter {
  std::int64_t taps = 0;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> count;
  std::vector<std::int32_t> weights;
};

double triangle(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

Filter make_filter(std::int64_t source, std::int64_t result) {
  const double scale = static_cast<double>(source) / static_cast<double>(result);
  const double support = std::max(1.0, scale);
  Filter filter;
  filter.taps = 2 * static_cast<std::int64_t>(std::ceil(support)) + 1;
  filter.weights.resize(static_cast<std::size_t>(filter.taps * result));
  std::vector<double> weights(static_cast<std::size_t>(filter.taps));
  for (std::int64_t i = 0; i < result; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const std::int64_t first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const std::int64_t end = std::min(source, static_cast<std::int64_t>(center + support + 0.5));
    double sum = 0;
    for (std::int64_t k = first; k < end; ++k) {
      const double weight = triangle((static_cast<double>(k) - center + 0.5) * (1.0 / support));
      weights[static_cast<std::size_t>(k - first)] = weight;
      sum += weight;
    }
    for (std::int64_t k = 0; k < end - first; ++k) {
      const double weight = weights[static_cast<std::size_t>(k)] / sum;
      filter.weights[static_cast<std::size_t>(i * filter.taps + k)] = static_cast<std::int32_t>(0.5 + weight * kOne);
    }
    filter.first.push_back(first);
    filter.count.push_back(end - first);
  }
  return filter;
}

std::uint8_t to_byte(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

// (height, source width, 3) -> (height, width, 3)
Image resize_rows(const Image& source, std::int64_t width) {
  const Filter filter = make_filter(source.width, width);
  Image result = Image::of_size(width, source.height);
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t y = 0; y < source.height; ++y) {
    const std::uint8_t* const row = source.pixels.data() + y * source.width * 3;
    for (std::int64_t x = 0; x < width; ++x) {
      const auto i = static_cast<std::size_t>(x);
      const std::uint8_t* from = row + 3 * filter.first[i];
      const std::int32_t* const weights = filter.weights.data() + x * filter.taps;
      std::int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (std::int64_t k = 0; k < filter.count[i]; ++k, from += 3) {
        red += from[0] * weights[k];
        green += from[1] * weights[k];
        blue += from[2] * weights[k];
      }
      *to++ = to_byte(red);
      *to++ = to_byte(green);
      *to++ = to_byte(blue);
    }
  }
  return result;
}

// (source height, width, 3) -> (height, width, 3)
Image resize_columns(const Image& source, std::int64_t height) {
  const Filter filter = make_filter(source.height, height);
  Image result = Image::of_size(source.width, height);
  const auto row_bytes = static_cast<std::size_t>(source.width * 3);
  std::vector<std::int32_t> sums(row_bytes);
  for (std::int64_t y = 0; y < height; ++y) {
    const auto i = static_cast<std::size_t>(y);
    std::fill(sums.begin(), sums.end(), kHalf);
    for (std::int64_t k = 0; k < filter.count[i]; ++k) {
      const std::uint8_t* const from = source.pixels.data() + static_cast<std::size_t>(filter.first[i] + k) * row_bytes;
      const std::int32_t weight = filter.weights[static_cast<std::size_t>(y * filter.taps + k)];
      for (std::size_t b = 0; b < row_bytes; ++b) sums[b] += from[b] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.pixels.data() + i * row_bytes, to_byte);
  }
  return result;
}

}  // namespace

Image resize(Image image, std::int64_t width, std::int64_t height) {
  if (image.width != width) image = resize_rows(image, width);
  if (image.height != height) image = resize_columns(image, height);
  return image;
}

}  // namespace tutti::trainer
