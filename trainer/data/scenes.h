// Generated scenes: 64 x 64 colour pictures in the 21 classes of UC Merced, painted by code, for when no data is found.
//
// Fields, roads, roofs, boats and trees from above, at random places, directions and colours: a stand-in of that set's
// form, not a substitute for it. Colours overlap between classes, so that a linear model gets part of them and a
// convolutional one most. Picture i depends on (seed, split, i) only; its class is i mod 21.
#pragma once

#include <tutti/trainer/data/dataset.h>

#include <cstdint>

namespace tutti::trainer {

inline constexpr std::int64_t kScenesTrainCount = 1680;
inline constexpr std::int64_t kScenesTestCount = 420;

/// `generated` is true in the result. Throws std::invalid_argument for a negative count.
ImageDataset generate_scenes(Split split, std::uint64_t seed, std::int64_t count);

/// The default size of that split, from seed 0.
ImageDataset generate_scenes(Split split);

}  // namespace tutti::trainer
