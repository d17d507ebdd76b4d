// c = a b through packed panels of b, e.g. the gradients of linear, dw (O, I) = dz (N, O)^T x (N, I) and
// dx (N, I) = dz w, and its forward pass when I is short.
//
// A tile of kMostRows rows and kMostVectors vectors of columns stays in registers while p runs: per p, kMostVectors
// loads of b and one broadcast of a(i, p) per row. Every loop over the tile is unrolled: one that is not, and be it the
// one at the end, makes the compiler keep the sums in memory, which costs a sixth of the time when k is short. The
// panel of b under a column of tiles is packed first, so that its rows are neighbours: a stride that is a power of two
// would put them all into the same few cache sets. Packing turns b around when b lies along p.
// A sum that is added to c goes on from there, one product after the other: the same bits as if k had not been cut.
#include <tutti/tensor/allocator.h>
#include <tutti/tensor/cpu/gemm.h>
#include <tutti/tensor/cpu/simd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

constexpr int kMostRows = kVectorRegisters == 32 ? 8 : 4;
constexpr int kMostVectors = kPanelsVectors;
constexpr std::int64_t kPiece = 256;  // rows of b in a panel

template <typename T>
class Panel {
 public:
  Panel() : memory_(static_cast<T*>(cpu_allocator().allocate(kBytes))) {}
  ~Panel() { cpu_allocator().deallocate(memory_, kBytes); }
  Panel(const Panel&) = delete;
  Panel& operator=(const Panel&) = delete;

  /// part.k rows and part.n columns of b. A row of the panel is `vectors` vectors long, filled up with zeros.
  const T* pack(const Product<T>& part, std::int64_t vectors) {
    if (part.b_col == 1) {
      pack_rows(part, vectors);
    } else {
      pack_columns(part, vectors);
    }
    return memory_;
  }

 private:
  using S = Simd<T>;
  static constexpr std::size_t kBytes = static_cast<std::size_t>(kPiece) * kMostVectors * kVectorBytes;

  void pack_rows(const Product<T>& part, std::int64_t vectors) {
    const std::int64_t full = part.n / S::kLanes;
    const std::int64_t rest = part.n % S::kLanes;
    T* to = memory_;
    for (std::int64_t p = 0; p < part.k; ++p) {
      const T* from = part.b + p * part.b_row;
      for (std::int64_t v = 0; v < full; ++v) S::store(to + v * S::kLanes, S::load(from + v * S::kLanes));
      if (rest > 0) S::store(to + full * S::kLanes, S::load_partial(from + full * S::kLanes, rest));
      to += vectors * S::kLanes;
    }
  }

  // b(p, j) at b + p + j * b_col: a square of kLanes columns at a time.
  void pack_columns(const Product<T>& part, std::int64_t vectors) {
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t columns = std::min(S::kLanes, part.n - v * S::kLanes);
      const T* from = part.b + v * S::kLanes * part.b_col;
      for (std::int64_t p = 0; p < part.k; p += S::kLanes) {
        const std::int64_t rows = std::min(S::kLanes, part.k - p);
        typename S::Vec square[S::kLanes];
        for (std::int64_t j = 0; j < columns; ++j) {
          const T* column = from + j * part.b_col + p;
          square[j] = rows == S::kLanes ? S::load(column) : S::load_partial(column, rows);
        }
        for (std::int64_t j = columns; j < S::kLanes; ++j) square[j] = typename S::Vec{};
        transpose_square<T>(square);
        T* to = memory_ + (p * vectors + v) * S::kLanes;
        for (std::int64_t row = 0; row < rows; ++row) S::store(to + row * vectors * S::kLanes, square[row]);
      }
    }
  }

  T* memory_;
};

// product.b is a panel, packed or in place; product.n its columns without the filling.
template <typename T, int kRows, int kVectors>
void tile(const Product<T>& product) {
  using S = Simd<T>;
  using Vec = typename S::Vec;
  const std::int64_t last = product.n - (kVectors - 1) * S::kLanes;  // columns of the last vector
  const auto loaded = [last](const T* c, int v) {
    return v < kVectors - 1 || last == S::kLanes ? S::load(c) : S::load_partial(c, last);
  };
  const bool continues = product.accumulate && product.start == 0;
  Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const T* c = product.c + i * product.c_row;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v, c += S::kLanes) sums[i][v] = continues ? loaded(c, v) : Vec{} + product.start;
  }
  const T* a = product.a;
  const T* b = product.b;
  for (std::int64_t p = 0; p < product.k; ++p) {
    Vec line[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) line[v] = S::load(b + v * S::kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const T factor = a[i * product.a_row];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] += factor * line[v];
    }
    a += product.a_col;
    b += product.b_row;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    T* c = product.c + i * product.c_row;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v, c += S::kLanes) {
      sums[i][v] -= product.start;
      if (product.accumulate && !continues) sums[i][v] += loaded(c, v);
      if (product.stream) {
        S::stream(c, sums[i][v]);
      } else if (v < kVectors - 1 || last == S::kLanes) {
        S::store(c, sums[i][v]);
      } else {
        S::store_partial(c, sums[i][v], last);
      }
    }
  }
}

template <typename T>
using Tile = void (*)(const Product<T>&);

// tiles[(rows - 1) * kMostVectors + vectors - 1]
template <typename T, std::size_t... kIndex>
constexpr std::array<Tile<T>, sizeof...(kIndex)> make_tiles(std::index_sequence<kIndex...>) {
  return {tile<T, static_cast<int>(kIndex) / kMostVectors + 1, static_cast<int>(kIndex) % kMostVectors + 1>...};
}

// Few rows, whole vectors and a stride that spreads over the cache sets: packing would cost more than it saves.
template <typename T>
bool usable_in_place(const Product<T>& part, std::int64_t vectors) {
  constexpr std::int64_t kFewRows = 96;  // each on its own page, and the first-level TLB holds 96
  return part.b_col == 1 && part.k <= kFewRows && part.n == vectors * Simd<T>::kLanes &&
         part.b_row * static_cast<std::int64_t>(sizeof(T)) % 512 != 0;
}

// All rows of a against one panel.
template <typename T>
void column_of_tiles(Product<T> part, std::int64_t vectors) {
  static constexpr auto kTiles =
      make_tiles<T>(std::make_index_sequence<static_cast<std::size_t>(kMostRows * kMostVectors)>());
  const EvenParts rows(part.m, kMostRows);
  for (std::int64_t r = 0; r < rows.parts; ++r) {
    kTiles[static_cast<std::size_t>((rows.size(r) - 1) * kMostVectors + vectors - 1)](part);
    part.a += rows.size(r) * part.a_row;
    part.c += rows.size(r) * part.c_row;
  }
}

// Rows of whole, aligned vectors, written once, and too many for the last cache: reading a line of c before it is
// overwritten, and keeping it afterwards, would cost more than the products when k is short.
template <typename T>
bool should_stream(const Product<T>& product) {
  constexpr std::int64_t kLargeBytes = std::int64_t{8} << 20;
  const auto aligned = [](std::uintptr_t bytes) { return bytes % kVectorBytes == 0; };
  return !product.accumulate && product.k <= kPiece && product.n % Simd<T>::kLanes == 0 &&
         product.m * product.n * static_cast<std::int64_t>(sizeof(T)) >= kLargeBytes &&
         aligned(reinterpret_cast<std::uintptr_t>(product.c)) &&
         aligned(static_cast<std::uintptr_t>(product.c_row) * sizeof(T));
}

}  // namespace

template <typename T>
void gemm_panels(const Product<T>& product) {
  constexpr std::int64_t kLanes = Simd<T>::kLanes;
  const bool stream = should_stream(product);
  Panel<T> panel;
  const EvenParts panels((product.n + kLanes - 1) / kLanes, kMostVectors);
  for (std::int64_t p = 0; p < product.k || p == 0; p += kPiece) {
    std::int64_t j = 0;
    for (std::int64_t s = 0; s < panels.parts; ++s) {
      const std::int64_t vectors = panels.size(s);
      Product<T> part = product;
      part.n = std::min(vectors * kLanes, product.n - j);
      part.k = std::min(kPiece, product.k - p);
      part.a = product.a + p * product.a_col;
      part.b = product.b + p * product.b_row + j * product.b_col;
      if (!usable_in_place(part, vectors)) {
        part.b = panel.pack(part, vectors);
        part.b_row = vectors * kLanes;
      }
      part.c = product.c + j;
      part.accumulate = product.accumulate || p > 0;
      part.stream = stream;
      column_of_tiles(part, vectors);
      j += vectors * kLanes;
    }
  }
  if (stream) Simd<T>::finish_streams();
}

template void gemm_panels<float>(const Product<float>&);
template void gemm_panels<double>(const Product<double>&);

}  // namespace tutti::tensor::cpu
