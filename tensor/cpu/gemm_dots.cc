// c = a b with both read along p, e.g. the forward pass of linear, x (N, I) w (O, I)^T.
//
// A tile of rows of a times columns of b keeps one vector accumulator per pair; lanes run along p and are added up at
// the end. Per vector of p: kMostA + kMostB loads for kMostA * kMostB multiply-adds. Blocking: k in pieces whose tile
// rows stay in the first cache, m in blocks that stay in the second while all of b passes; each tile fetches its share
// of the columns that come next, so that memory is read evenly while the products are computed. Rows of a that are a
// multiple of 512 bytes apart would all fall into the same few sets of the first cache, and are copied first.
#include <tutti/tensor/allocator.h>
#include <tutti/tensor/cpu/gemm.h>
#include <tutti/tensor/cpu/simd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

constexpr int kMostA = kVectorRegisters == 32 ? 6 : 3;
constexpr int kMostB = kVectorRegisters == 32 ? 4 : 3;
constexpr std::int64_t kPieceBytes = 4096;  // of a row, along k
constexpr int kSecondCache = 2;             // where to fetch to: the first one is full of what is being multiplied
constexpr std::int64_t kRowsOfA = 96;       // times kPieceBytes: less than half of a 1 MiB second cache

template <typename T, int kA, int kB>
void tile(const Product<T>& product) {
  using S = Simd<T>;
  using Vec = typename S::Vec;
  Vec sums[kA][kB];
#pragma GCC unroll 8
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) sums[i][j] = Vec{};
  }
  const T* const ahead = product.ahead;
  const std::int64_t ahead_columns = product.ahead_columns;
  const auto step = [&](std::int64_t p, auto&& load) {
    for (std::int64_t j = 0; j < ahead_columns; ++j) __builtin_prefetch(ahead + j * product.b_col + p, 0, kSecondCache);
    Vec b[kB];
    for (int j = 0; j < kB; ++j) b[j] = load(product.b + j * product.b_col);
    for (int i = 0; i < kA; ++i) {
      Vec a = load(product.a + i * product.a_row);
      S::hold(a);
      for (int j = 0; j < kB; ++j) sums[i][j] += a * b[j];
    }
  };
  std::int64_t p = 0;
  for (; p + S::kLanes <= product.k; p += S::kLanes) {
    step(p, [p](const T* row) { return S::load(row + p); });
  }
  if (p < product.k) {
    step(p, [p, rest = product.k - p](const T* row) { return S::load_partial(row + p, rest); });
  }
#pragma GCC unroll 8
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

// One piece of k, one block of rows of a, every column of b.
template <typename T>
void block(const Product<T>& whole) {
  static constexpr auto kTiles = make_tiles<T>(std::make_index_sequence<static_cast<std::size_t>(kMostA * kMostB)>());
  const EvenParts rows(whole.m, kMostA);
  const EvenParts columns(whole.n, kMostB);
  Product<T> part = whole;
  for (std::int64_t s = 0; s < columns.parts; ++s) {
    std::int64_t to_fetch = s + 1 < columns.parts ? columns.size(s + 1) : 0;
    const std::int64_t share = (to_fetch + rows.parts - 1) / rows.parts;
    part.ahead = part.b + columns.size(s) * whole.b_col;
    part.a = whole.a;
    T* const c = part.c;
    for (std::int64_t r = 0; r < rows.parts; ++r) {
      part.ahead_columns = std::min(share, to_fetch);
      kTiles[static_cast<std::size_t>((rows.size(r) - 1) * kMostB + columns.size(s) - 1)](part);
      part.ahead += part.ahead_columns * whole.b_col;
      to_fetch -= part.ahead_columns;
      part.a += rows.size(r) * whole.a_row;
      part.c += rows.size(r) * whole.c_row;
    }
    part.b += columns.size(s) * whole.b_col;
    part.c = c + columns.size(s);
  }
}

// A piece of a, its rows at a distance that spreads them over the sets of the cache.
template <typename T>
class SpreadRows {
 public:
  explicit SpreadRows(std::int64_t rows)
      : bytes_(static_cast<std::size_t>(rows * kDistance) * sizeof(T)),
        memory_(static_cast<T*>(cpu_allocator().allocate(bytes_))) {}
  ~SpreadRows() { cpu_allocator().deallocate(memory_, bytes_); }
  SpreadRows(const SpreadRows&) = delete;
  SpreadRows& operator=(const SpreadRows&) = delete;

  static bool helps(const Product<T>& product) {
    constexpr std::int64_t kFewColumns = 64;  // of b, for which the copy would cost more than it brings
    return product.n >= kFewColumns && product.a_row * static_cast<std::int64_t>(sizeof(T)) % 512 == 0;
  }

  /// Makes part.a the copy of part.m rows and part.k columns.
  void take(Product<T>& part) {
    for (std::int64_t i = 0; i < part.m; ++i) std::copy_n(part.a + i * part.a_row, part.k, memory_ + i * kDistance);
    part.a = memory_;
    part.a_row = kDistance;
  }

 private:
  static constexpr std::int64_t kDistance = (kPieceBytes + kVectorBytes) / static_cast<std::int64_t>(sizeof(T));
  std::size_t bytes_;
  T* memory_;
};

}  // namespace

template <typename T>
void gemm_dots(const Product<T>& product) {
  constexpr std::int64_t kPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(T));
  std::optional<SpreadRows<T>> spread;
  if (SpreadRows<T>::helps(product)) spread.emplace(std::min(product.m, kRowsOfA));
  for (std::int64_t p = 0; p < product.k || p == 0; p += kPiece) {
    for (std::int64_t i = 0; i < product.m; i += kRowsOfA) {
      Product<T> part = product;
      part.m = std::min(kRowsOfA, product.m - i);
      part.k = std::min(kPiece, product.k - p);
      part.a = product.a + i * product.a_row + p;
      part.b = product.b + p;
      part.c = product.c + i * product.c_row;
      part.accumulate = product.accumulate || p > 0;
      if (spread) spread->take(part);
      block(part);
    }
  }
}

template void gemm_dots<float>(const Product<float>&);
template void gemm_dots<double>(const Product<double>&);

}  // namespace tutti::tensor::cpu
