// Which taps of a convolution's kernel fall inside the image, along one direction. Private to tensor/cpu.
//
// Positions with the same taps form a class. In a class no border has to be asked for: every position reads at the same
// distances from its own first tap, so that a class is one matrix product, and taps in the padding cost nothing (for a
// 3x3 kernel over a 2x2 image they are more than half of all). A 3x3 kernel with padding 1 has at most three classes a
// direction: the two borders and the inside.
#pragma once

#include <tutti/tensor/pair.h>

#include <cstdint>
#include <vector>

namespace tutti::tensor::cpu {

struct ConvAxis {
  std::int64_t input;
  std::int64_t output;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;
};

struct Tap {
  std::int64_t kernel;    // position in the kernel
  std::int64_t distance;  // of what it reads, from what the class's first tap reads
  bool operator==(const Tap&) const = default;
};

struct TapPlace {
  std::int64_t to;    // the position that is computed
  std::int64_t from;  // the position that its first tap reads
};

struct TapClass {
  std::vector<Tap> taps;  // by rising kernel position; may be empty: the result is zero
  std::vector<TapPlace> places;
};

/// Output positions computed from input positions.
std::vector<TapClass> forward_classes(const ConvAxis& axis);
/// The transpose: input positions whose gradient is computed from output positions.
std::vector<TapClass> backward_classes(const ConvAxis& axis);

}  // namespace tutti::tensor::cpu
