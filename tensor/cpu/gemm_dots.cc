// c = a b with both read along p, e.g. the forward pass of linear, x (N, I) w (O, I)^T.
//
// A tile of rows of a times columns of b keeps one vector accumulator per pair; lanes run along p and are added up at
// the end. Per vector of p: kMostA + kMostB loads for kMostA * kMostB multiply-adds. Blocking: k in pieces whose tile
// rows stay in the first cache, n in pieces that stay in the second.
#include <tutti/tensor/cpu/gemm.h>
#include <tutti/tensor/cpu/simd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

constexpr int kMostA = kVectorRegisters == 32 ? 6 : 3;
constexpr int kMostB = kVectorRegisters == 32 ? 4 : 3;
constexpr std::int64_t kPieceBytes = 4096;  // of a row, along k
constexpr std::int64_t kColumnsOfB = 96;    // times kPieceBytes: a fifth of a 2 MiB second cache

template <typename T, int kA, int kB>
void tile(const Product<T>& product) {
  using S = Simd<T>;
  using Vec = typename S::Vec;
  Vec sums[kA][kB] = {};
  const auto step = [&](auto&& load) {
    Vec b[kB];
    for (int j = 0; j < kB; ++j) b[j] = load(product.b + j * product.b_col);
    for (int i = 0; i < kA; ++i) {
      const Vec a = load(product.a + i * product.a_row);
      for (int j = 0; j < kB; ++j) sums[i][j] += a * b[j];
    }
  };
  std::int64_t p = 0;
  for (; p + S::kLanes <= product.k; p += S::kLanes) {
    step([p](const T* row) { return S::load(row + p); });
  }
  if (p < product.k) {
    step([p, rest = product.k - p](const T* row) { return S::load_partial(row + p, rest); });
  }
  for (int i = 0; i < kA; ++i) {
    Vec four[4] = {};
    for (int j = 0; j < kB; ++j) four[j] = sums[i][j];
    T totals[4];
    S::sum_lanes(four, totals);
    T* c = product.c + i * product.c_row;
    for (int j = 0; j < kB; ++j) c[j] = product.accumulate ? c[j] + totals[j] : totals[j];
  }
}

template <typename T>
using Tile = void (*)(const Product<T>&);

// tiles[(rows of a - 1) * kMostB + columns of b - 1]
template <typename T, std::size_t... kIndex>
constexpr std::array<Tile<T>, sizeof...(kIndex)> make_tiles(std::index_sequence<kIndex...>) {
  return {tile<T, static_cast<int>(kIndex) / kMostB + 1, static_cast<int>(kIndex) % kMostB + 1>...};
}

// One piece of k and of n; every row of a.
template <typename T>
void block(const Product<T>& whole) {
  static constexpr auto kTiles = make_tiles<T>(std::make_index_sequence<static_cast<std::size_t>(kMostA * kMostB)>());
  const EvenParts rows(whole.m, kMostA);
  const EvenParts columns(whole.n, kMostB);
  Product<T> part = whole;
  for (std::int64_t r = 0; r < rows.parts; ++r) {
    part.b = whole.b;
    T* const c = part.c;
    for (std::int64_t s = 0; s < columns.parts; ++s) {
      kTiles[static_cast<std::size_t>((rows.size(r) - 1) * kMostB + columns.size(s) - 1)](part);
      part.b += columns.size(s) * whole.b_col;
      part.c += columns.size(s);
    }
    part.a += rows.size(r) * whole.a_row;
    part.c = c + rows.size(r) * whole.c_row;
  }
}

}  // namespace

template <typename T>
void gemm_dots(const Product<T>& product) {
  constexpr std::int64_t kPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t p = 0; p < product.k || p == 0; p += kPiece) {
    for (std::int64_t j = 0; j < product.n; j += kColumnsOfB) {
      Product<T> part = product;
      part.k = std::min(kPiece, product.k - p);
      part.n = std::min(kColumnsOfB, product.n - j);
      part.a = product.a + p;
      part.b = product.b + j * product.b_col + p;
      part.c = product.c + j;
      part.accumulate = product.accumulate || p > 0;
      block(part);
    }
  }
}

template void gemm_dots<float>(const Product<float>&);
template void gemm_dots<double>(const Product<double>&);

}  // namespace tutti::tensor::cpu
