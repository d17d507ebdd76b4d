#include <tutti/tensor/cpu/conv_taps.h>

#include <algorithm>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

// source(position, kernel) is the position that this tap reads, or -1.
template <typename Source>
std::vector<TapClass> classes(std::int64_t positions, std::int64_t kernel, Source source) {
  std::vector<TapClass> found;
  for (std::int64_t position = 0; position < positions; ++position) {
    std::vector<Tap> taps;
    std::int64_t first = 0;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t from = source(position, k);
      if (from < 0) continue;
      if (taps.empty()) first = from;
      taps.push_back({k, from - first});
    }
    auto same = std::find_if(found.begin(), found.end(), [&](const TapClass& c) { return c.taps == taps; });
    if (same == found.end()) same = found.insert(found.end(), {std::move(taps), {}});
    same->places.push_back({position, first});
  }
  return found;
}

}  // namespace

std::vector<TapClass> forward_classes(const ConvAxis& axis) {
  return classes(axis.output, axis.kernel, [&](std::int64_t output, std::int64_t k) -> std::int64_t {
    const std::int64_t input = output * axis.stride - axis.padding + k * axis.dilation;
    return input < axis.input ? input : -1;
  });
}

std::vector<TapClass> backward_classes(const ConvAxis& axis) {
  return classes(axis.input, axis.kernel, [&](std::int64_t input, std::int64_t k) -> std::int64_t {
    const std::int64_t scaled = input + axis.padding - k * axis.dilation;
    if (scaled < 0 || scaled % axis.stride != 0) return -1;
    const std::int64_t output = scaled / axis.stride;
    return output < axis.output ? output : -1;
  });
}

}  // namespace tutti::tensor::cpu
