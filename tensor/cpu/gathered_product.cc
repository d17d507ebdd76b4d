#include <tutti/tensor/cpu/gathered_product.h>

#include <array>
#include <cstddef>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

template <typename T>
typename Simd<T>::Vec load_columns(const T* from, std::int64_t columns) {
  return columns >= Simd<T>::kLanes ? Simd<T>::load(from) : Simd<T>::load_partial(from, columns);
}

template <typename T>
void finish_vector(const GatheredTile<T>& tile, int row, std::int64_t at, typename Simd<T>::Vec sum) {
  T* c = tile.c[row] + at;
  const std::int64_t columns = tile.columns - at;
  if (tile.accumulate) sum += load_columns(c, columns);
  if (tile.bias != nullptr) sum += load_columns(tile.bias + at, columns);
  if (tile.relu) sum = sum <= T{0} ? typename Simd<T>::Vec{} : sum;  // NaN stays NaN
  if (columns >= Simd<T>::kLanes) {
    Simd<T>::store(c, sum);
  } else {
    Simd<T>::store_partial(c, sum, columns);
  }
}

template <typename T, int kRows, int kVectors>
void block(const GatheredTile<T>& tile, const std::vector<Segment>& segments) {
  using S = Simd<T>;
  typename S::Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sums[i][j] = typename S::Vec{} + tile.start;
  }
  const std::int64_t step = tile.step;
  for (const Segment& segment : segments) {
    const T* b = tile.panel + segment.panel_row * kVectors * S::kLanes;
    const T* a[kRows];
    for (int i = 0; i < kRows; ++i) a[i] = tile.a[i] + segment.offset;
    const T* const end = b + segment.length * kVectors * S::kLanes;
    for (std::int64_t p = 0; b != end; p += step) {
      typename S::Vec line[kVectors];
      for (int v = 0; v < kVectors; ++v) line[v] = S::load(b + v * S::kLanes);
      for (int i = 0; i < kRows; ++i) {
        const T factor = a[i][p];
        for (int v = 0; v < kVectors; ++v) sums[i][v] += factor * line[v];
      }
      b += kVectors * S::kLanes;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) finish_vector(tile, i, v * S::kLanes, sums[i][v] - tile.start);
  }
}

template <typename T>
using Block = void (*)(const GatheredTile<T>&, const std::vector<Segment>&);

// table[(rows - 1) * kPanelVectors + vectors - 1]
template <typename T, std::size_t... kIndex>
constexpr std::array<Block<T>, sizeof...(kIndex)> make_table(std::index_sequence<kIndex...>) {
  return {block<T, static_cast<int>(kIndex) / kPanelVectors + 1, static_cast<int>(kIndex) % kPanelVectors + 1>...};
}

}  // namespace

template <typename T>
void run_tile(const GatheredTile<T>& tile, const std::vector<Segment>& segments) {
  static constexpr auto kTable =
      make_table<T>(std::make_index_sequence<static_cast<std::size_t>(kTileRows * kPanelVectors)>());
  kTable[static_cast<std::size_t>((tile.rows - 1) * kPanelVectors + tile.vectors - 1)](tile, segments);
}

template void run_tile<float>(const GatheredTile<float>&, const std::vector<Segment>&);
template void run_tile<double>(const GatheredTile<double>&, const std::vector<Segment>&);

}  // namespace tutti::tensor::cpu
