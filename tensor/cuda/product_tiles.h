// The innermost part of our own matrix products on a GPU: a block of 256 threads multiplies a tile of a (kRows, kDepth)
// by a tile of b (kDepth, kColumns), both in shared memory, and keeps the sums in registers from one tile to the next.
//
// Two variants of one interface. PlainTile computes in T with ordinary multiply-adds, in float32 and float64; each
// thread owns kRows / 16 x kColumns / 16 elements, so that of 128 x 128 every number loaded from shared memory is used
// 8 times, and each one loaded from device memory 128 times: 2 * 128 * 128 / (2 * 128 * 4) = 32 operations a byte.
// TensorTile computes the same sums on the tensor cores in TF32 (10 bits of mantissa in the factors, sums in float32)
// through nvcuda::wmma; the emulator has none, so it is the one piece of these kernels that only a GPU can prove.
// Include from device code only.
#pragma once

#include <tutti/tensor/cuda/device.h>

#include <type_traits>

#if defined(__CUDACC__)
#include <mma.h>
#endif

// Arrays that a loop runs over stay in registers only if it is unrolled.
#if defined(__CUDACC__)
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

namespace tutti::tensor::cuda {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileDepth = 16;

/// Four neighbours, loaded and stored as one.
template <typename T>
struct alignas(16) Quad {
  T v[4];
};

/// How a tile of a lies in shared memory: row by row (its depth is contiguous in device memory), or the other way
/// round. The padding keeps rows on different banks and every row 16-byte aligned.
enum class TileOrder { Rows, Depths };

template <typename T, int kM, int kN>
struct TileShape {
  using Value = T;
  static constexpr int kRows = kM;
  static constexpr int kColumns = kN;
  static constexpr int kPadding = 4;
  static constexpr int kRowPitch = kTileDepth + kPadding;  // of a in TileOrder::Rows
  static constexpr int kDepthPitch = kM + kPadding;        // of a in TileOrder::Depths
  static constexpr int kPitchB = kN + kPadding;
  static constexpr int kSizeA = kM * kRowPitch > kTileDepth* kDepthPitch ? kM* kRowPitch : kTileDepth* kDepthPitch;
  static constexpr int kSizeB = kTileDepth * kPitchB;
};

template <typename T, int kM, int kN>
class PlainTile : public TileShape<T, kM, kN> {
 public:
  using Shape = TileShape<T, kM, kN>;
  static constexpr int kStageSize = 1;  // shared memory that for_each needs

  template <TileOrder kOrder>
  __device__ void multiply(const T* a, const T* b) {
    const int row = static_cast<int>(threadIdx.x) / 16;
    const int column = static_cast<int>(threadIdx.x) % 16 * 4;
    TUTTI_UNROLL for (int k = 0; k < kTileDepth; ++k) {
      T from_a[kHeight];
      Quad<T> from_b[kQuads];
      TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
        const int r = row + 16 * i;
        from_a[i] = kOrder == TileOrder::Rows ? a[r * Shape::kRowPitch + k] : a[k * Shape::kDepthPitch + r];
      }
      TUTTI_UNROLL for (int j = 0; j < kQuads; ++j) {
        from_b[j] = *reinterpret_cast<const Quad<T>*>(b + k * Shape::kPitchB + column + 64 * j);
      }
      TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
        TUTTI_UNROLL for (int j = 0; j < kQuads * 4; ++j) sums_[i][j] += from_a[i] * from_b[j / 4].v[j % 4];
      }
    }
  }

  /// f(row, column, sum) for the elements of this thread. `stage` is not used.
  template <typename F>
  __device__ void for_each(T* stage, F f) const {
    (void)stage;
    const int row = static_cast<int>(threadIdx.x) / 16;
    const int column = static_cast<int>(threadIdx.x) % 16 * 4;
    TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
      TUTTI_UNROLL for (int j = 0; j < kQuads * 4; ++j) f(row + 16 * i, column + j / 4 * 64 + j % 4, sums_[i][j]);
    }
  }

 private:
  static constexpr int kHeight = kM / 16;
  static constexpr int kQuads = kN / 64;
  static_assert(kM % 16 == 0 && kN % 64 == 0);

  T sums_[kHeight][kQuads * 4] = {};
};

#if defined(__CUDACC__)
/// Eight warps, four down and two across, of fragments of 16 x 16.
template <int kM, int kN>
class TensorTile : public TileShape<float, kM, kN> {
 public:
  using Shape = TileShape<float, kM, kN>;
  static constexpr int kStageSize = 8 * 16 * 20;

  __device__ TensorTile() {
    TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
      TUTTI_UNROLL for (int j = 0; j < kWidth; ++j) nvcuda::wmma::fill_fragment(sums_[i][j], 0.0F);
    }
  }

  template <TileOrder kOrder>
  __device__ void multiply(const float* a, const float* b) {
    namespace wmma = nvcuda::wmma;
    using OrderA = std::conditional_t<kOrder == TileOrder::Rows, wmma::row_major, wmma::col_major>;
    TUTTI_UNROLL for (int k = 0; k < kTileDepth; k += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, OrderA> from_a[kHeight];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> from_b[kWidth];
      TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
        const int row = first_row() + 16 * i;
        if constexpr (kOrder == TileOrder::Rows) {
          wmma::load_matrix_sync(from_a[i], a + row * Shape::kRowPitch + k, Shape::kRowPitch);
        } else {
          wmma::load_matrix_sync(from_a[i], a + k * Shape::kDepthPitch + row, Shape::kDepthPitch);
        }
        round(from_a[i]);
      }
      TUTTI_UNROLL for (int j = 0; j < kWidth; ++j) {
        wmma::load_matrix_sync(from_b[j], b + k * Shape::kPitchB + first_column() + 16 * j, Shape::kPitchB);
        round(from_b[j]);
      }
      TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
        TUTTI_UNROLL for (int j = 0; j < kWidth; ++j) wmma::mma_sync(sums_[i][j], from_a[i], from_b[j], sums_[i][j]);
      }
    }
  }

  /// As PlainTile's; `stage` is shared memory of kStageSize, in which which thread holds what becomes known.
  template <typename F>
  __device__ void for_each(float* stage, F f) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* const own = stage + static_cast<int>(threadIdx.x) / 32 * (16 * 20);
    TUTTI_UNROLL for (int i = 0; i < kHeight; ++i) {
      TUTTI_UNROLL for (int j = 0; j < kWidth; ++j) {
        nvcuda::wmma::store_matrix_sync(own, sums_[i][j], 20, nvcuda::wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 16 * 16; e += 32) {
          f(first_row() + 16 * i + e / 16, first_column() + 16 * j + e % 16, own[e / 16 * 20 + e % 16]);
        }
        __syncwarp();
      }
    }
  }

 private:
  static constexpr int kHeight = kM / 4 / 16;
  static constexpr int kWidth = kN / 2 / 16;
  static_assert(kM % 64 == 0 && kN % 32 == 0);

  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / 32 % 4 * (kM / 4); }
  __device__ static int first_column() { return static_cast<int>(threadIdx.x) / 128 * (kN / 2); }
  template <typename Fragment>
  __device__ static void round(Fragment& fragment) {
    TUTTI_UNROLL for (int e = 0; e < fragment.num_elements; ++e) fragment.x[e] =
        nvcuda::wmma::__float_to_tf32(fragment.x[e]);
  }

  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 8, float> sums_[kHeight][kWidth];
};
#endif

}  // namespace tutti::tensor::cuda
