// c = a b with both read along p, e.g. the forward pass of linear, x (N, I) w (O, I)^T.
//
// A tile of rows of a times columns of b keeps one vector accumulator per pair; lanes run along p and are added up at
// the end. Per vector of p: kMostA + kMostB loads for kMostA * kMostB multiply-adds. Blocking: k in pieces whose tile
// rows stay in the first cache, n in pieces that stay in the second; while the first rows of a are multiplied, the next
// columns of b are fetched. Rows of a that are a multiple of 512 bytes apart would all fall into the same few sets of
// the first cache, and are copied first.
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
constexpr std::int64_t kColumnsOfB = 96;    // times kPieceBytes: a fifth of a 2 MiB second cache

template <typename T, int kA, int kB>
void tile(const Product<T>& product) {
  using S = Simd<T>;
  using Vec = typename S::Vec;
  Vec sums[kA][kB] = {};
  const T* const ahead = product.ahead;
  const auto step = [&](std::int64_t p, auto&& load) {
    if (ahead != nullptr) {
      for (int j = 0; j < kB; ++j) __builtin_prefetch(ahead + j * product.b_col + p);
    }
    Vec b[kB];
    for (int j = 0; j < kB; ++j) b[j] = load(product.b + j * product.b_col);
    for (int i = 0; i < kA; ++i) {
      const Vec a = load(product.a + i * product.a_row);
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
  for (std::int64_t s = 0; s < columns.parts; ++s) {
    part.a = whole.a;
    T* const c = part.c;
    for (std::int64_t r = 0; r < rows.parts; ++r) {
      part.ahead = r == 0 && s + 1 < columns.parts ? part.b + columns.size(s) * whole.b_col : nullptr;
      kTiles[static_cast<std::size_t>((rows.size(r) - 1) * kMostB + columns.size(s) - 1)](part);
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

  /// Makes part.a the copy of part.k columns from p on.
  void take(Product<T>& part, const Product<T>& whole, std::int64_t p) {
    for (std::int64_t i = 0; i < whole.m; ++i) {
      std::copy_n(whole.a + i * whole.a_row + p, part.k, memory_ + i * kDistance);
    }
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
  if (SpreadRows<T>::helps(product)) spread.emplace(product.m);
  for (std::int64_t p = 0; p < product.k || p == 0; p += kPiece) {
    Product<T> piece = product;
    piece.k = std::min(kPiece, product.k - p);
    piece.a = product.a + p;
    if (spread) spread->take(piece, product, p);
    for (std::int64_t j = 0; j < product.n; j += kColumnsOfB) {
      Product<T> part = piece;
      part.n = std::min(kColumnsOfB, product.n - j);
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
