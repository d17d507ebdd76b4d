// Generated digits: 28 x 28 images of 0 to 9, drawn by code, for when no real data is at hand.
//
// Each digit is a few strokes whose points, size, place, slant, thickness and ink vary, under noise and a stray stroke:
// a stand-in of MNIST's form and about MNIST's difficulty for a small network, not a substitute for it. Image i depends
// on (seed, split, i) only, never on a rank, a thread or how many are drawn; all arithmetic is on integers, so every
// machine draws the same bytes.
#pragma once

#include <tutti/trainer/data/dataset.h>

#include <cstdint>

namespace tutti::trainer {

inline constexpr std::int64_t kDigitsTrainCount = 20000;
inline constexpr std::int64_t kDigitsTestCount = 2000;

/// `generated` is true in the result. Throws std::invalid_argument for a negative count.
ImageDataset generate_digits(Split split, std::uint64_t seed, std::int64_t count);

/// The default size of that split, from seed 0.
ImageDataset generate_digits(Split split);

}  // namespace tutti::trainer
