#include <tutti/tensor/keyed_stream.h>
#include <tutti/trainer/data/augmentation.h>

#include <algorithm>
#include <array>

namespace tutti::trainer {
namespace {

constexpr std::uint64_t kPurpose = ~std::uint64_t{0};  // of the key's streams; dropout layers count from 0
constexpr int kByteValues = 256;

// Where element (row, column) of the result comes from, and the step to the next ones.
struct Walk {
  std::int64_t row = 0, column = 0;
  std::int64_t row_by_y = 1, row_by_x = 0;
  std::int64_t column_by_y = 0, column_by_x = 1;
};

// Each change is written for results (y, x) and put before those that are in the walk already.
Walk walk_of(const Placement& placement, const PictureSize& size) {
  Walk walk;
  const std::int64_t last_row = size.height - 1;
  const std::int64_t last_column = size.width - 1;
  for (int turn = 0; turn < placement.quarter_turns; ++turn) {  // result (y, x) is source (x, last - y)
    const Walk before = walk;
    walk.row = before.row + before.row_by_x * last_column;
    walk.row_by_y = -before.row_by_x;
    walk.row_by_x = before.row_by_y;
    walk.column = before.column + before.column_by_x * last_column;
    walk.column_by_y = -before.column_by_x;
    walk.column_by_x = before.column_by_y;
  }
  const auto flip = [&](auto last, auto& row_by, auto& column_by) {
    walk.row += row_by * last;
    walk.column += column_by * last;
    row_by = -row_by;
    column_by = -column_by;
  };
  if (placement.flip_horizontal) flip(last_column, walk.row_by_x, walk.column_by_x);
  if (placement.flip_vertical) flip(last_row, walk.row_by_y, walk.column_by_y);
  return walk;
}

// kChannels = 0: as many as size says, known at run time only.
template <int kChannels>
void place(const std::uint8_t* bytes, const PictureSize& size, const Walk& walk, const float* table, float* values) {
  const std::int64_t channels = kChannels > 0 ? kChannels : size.channels;
  for (std::int64_t y = 0; y < size.height; ++y) {
    std::int64_t row = walk.row + y * walk.row_by_y;
    std::int64_t column = walk.column + y * walk.column_by_y;
    for (std::int64_t x = 0; x < size.width; ++x) {
      const std::uint8_t* const pixel = bytes + (row * size.width + column) * channels;
      for (std::int64_t c = 0; c < channels; ++c) *values++ = table[c * kByteValues + pixel[c]];
      row += walk.row_by_x;
      column += walk.column_by_x;
    }
  }
}

}  // namespace

Placement draw_placement(const Augmentation& augmentation, std::uint64_t key) {
  tensor::KeyedStream stream(key, kPurpose);
  const bool horizontal = stream.below(2) == 1;
  const bool vertical = stream.below(2) == 1;
  const auto turns = static_cast<int>(stream.below(4));
  Placement placement;
  placement.flip_horizontal = augmentation.flip_horizontal && horizontal;
  placement.flip_vertical = augmentation.flip_vertical && vertical;
  placement.quarter_turns = augmentation.rotate ? turns : 0;
  return placement;
}

void place_picture(const std::uint8_t* bytes, const PictureSize& size, const Placement& placement, const float* table,
                   float* values) {
  const Walk walk = walk_of(placement, size);
  switch (size.channels) {
    case 1:
      return place<1>(bytes, size, walk, table, values);
    case 3:
      return place<3>(bytes, size, walk, table, values);
    default:
      return place<0>(bytes, size, walk, table, values);
  }
}

}  // namespace tutti::trainer
