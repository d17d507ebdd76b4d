// Sums. What is added up is cut into chunks by the shape alone; each chunk is added in a fixed tree, short runs in T
// and their sums in double, and a second kernel adds the chunks. So results depend neither on the card nor on the run,
// and keep their digits.
//
// All of them are the sum over the middle axis of (A, B, C): a sum is (1, n, 1), a column sum (1, M, N).
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

#include <algorithm>

namespace tutti::tensor::cuda {
namespace {

constexpr int kRun = 16;               // terms that are added in T before they go into a double
constexpr unsigned kTileColumns = 32;  // of a block in the tall kernel: a warp reads a line of them
constexpr unsigned kTileRows = 8;
constexpr std::int64_t kWantedBlocks = 1024;  // enough for every card; a constant, not the card's
constexpr std::int64_t kShortRow = 1024;

struct Cuts {
  std::int64_t outer;      // A
  std::int64_t rows;       // B
  std::int64_t columns;    // C
  std::int64_t chunks;     // of B
  std::int64_t per_chunk;  // rows
};

// Chunks of at least `least` rows, about kWantedBlocks blocks in all.
Cuts cuts_of(std::int64_t outer, std::int64_t rows, std::int64_t columns, std::int64_t blocks_beside,
             std::int64_t least) {
  const std::int64_t wanted = std::max<std::int64_t>(1, kWantedBlocks / std::max<std::int64_t>(1, blocks_beside));
  const std::int64_t per_chunk = std::max(least, (rows + wanted - 1) / wanted);
  return {outer, rows, columns, std::max<std::int64_t>(1, (rows + per_chunk - 1) / per_chunk), per_chunk};
}

template <typename T>
struct Identity {
  const T* a;
  __device__ T operator()(std::int64_t i) const { return a[i]; }
};
template <typename T>
struct Product {
  const T* a;
  const T* b;
  __device__ T operator()(std::int64_t i) const { return a[i] * b[i]; }
};
template <typename T>
struct SquaredDifference {
  const T* a;
  const T* b;
  __device__ T operator()(std::int64_t i) const {
    const T difference = a[i] - b[i];
    return difference * difference;
  }
};

// The sum of term(i) for i = at, at + step, ... below end: runs in the terms' own type, their sums in double.
template <typename F>
__device__ double run_sum(const F& term, std::int64_t at, std::int64_t end, std::int64_t step) {
  double total = 0;
  while (at < end) {
    decltype(term(at)) part = 0;
    for (int k = 0; k < kRun && at < end; ++k, at += step) part += term(at);
    total += static_cast<double>(part);
  }
  return total;
}

// Where a sum goes: out (+)= factor * total, or, of one chunk among several, into `partial`.
template <typename T>
struct Target {
  T* out;
  double* partial;
  double factor;
  bool accumulate;

  __device__ void finish(std::int64_t at, double total) const {
    const T value = static_cast<T>(factor * total);
    out[at] = accumulate ? out[at] + value : value;
  }
};

// C = 1, short rows: a warp a row.
template <typename T, typename F>
__global__ void short_rows_kernel(Target<T> target, F term, Cuts cuts) {
  const std::int64_t outer = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarpLanes) + threadIdx.x / kWarpLanes;
  if (outer >= cuts.outer) return;  // the whole warp
  const std::int64_t row = outer * cuts.rows;
  const double total = warp_sum(run_sum(term, row + threadIdx.x % kWarpLanes, row + cuts.rows, kWarpLanes));
  if (threadIdx.x % kWarpLanes == 0) target.finish(outer, total);
}

// C = 1: block (chunk, a) adds up a piece of row a.
template <typename T, typename F>
__global__ void flat_kernel(Target<T> target, F term, Cuts cuts) {
  const std::int64_t chunk = blockIdx.x % cuts.chunks;
  const std::int64_t outer = blockIdx.x / cuts.chunks;
  const std::int64_t begin = chunk * cuts.per_chunk;
  const std::int64_t end = begin + cuts.per_chunk < cuts.rows ? begin + cuts.per_chunk : cuts.rows;
  const std::int64_t row = outer * cuts.rows;
  const double total = block_sum<kThreads>(run_sum(term, row + begin + threadIdx.x, row + end, kThreads));
  if (threadIdx.x != 0) return;
  if (cuts.chunks == 1) {
    target.finish(outer, total);
  } else {
    target.partial[blockIdx.x] = total;
  }
}

// C > 1: block (tile of columns, chunk, a) of 32 x 8 threads.
template <typename T, typename F>
__global__ void tall_kernel(Target<T> target, F term, Cuts cuts, std::int64_t tiles) {
  __shared__ double parts[kTileRows][kTileColumns];
  const std::int64_t tile = blockIdx.x % tiles;
  const std::int64_t chunk = blockIdx.x / tiles % cuts.chunks;
  const std::int64_t outer = blockIdx.x / tiles / cuts.chunks;
  const std::int64_t column = tile * kTileColumns + threadIdx.x;
  const std::int64_t begin = chunk * cuts.per_chunk;
  const std::int64_t end = begin + cuts.per_chunk < cuts.rows ? begin + cuts.per_chunk : cuts.rows;
  double total = 0;
  if (column < cuts.columns) {
    const std::int64_t slab = outer * cuts.rows;
    total = run_sum(term, (slab + begin + threadIdx.y) * cuts.columns + column, (slab + end) * cuts.columns,
                    kTileRows * cuts.columns);
  }
  parts[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= cuts.columns) return;
  for (unsigned row = 1; row < kTileRows; ++row) total += parts[row][threadIdx.x];
  if (cuts.chunks == 1) {
    target.finish(outer * cuts.columns + column, total);
  } else {
    target.partial[(outer * cuts.chunks + chunk) * cuts.columns + column] = total;
  }
}

template <typename T, typename F>
void reduce_middle(const Operation& op, Tensor& out, const F& term, std::int64_t outer, std::int64_t rows,
                   std::int64_t columns, double factor, bool accumulate) {
  if (outer * columns == 0) return;
  const bool flat = columns == 1;
  const std::int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  const Cuts cuts = cuts_of(outer, rows, columns, flat ? outer : outer * tiles,
                            flat ? std::int64_t{kThreads} * kRun : std::int64_t{kTileRows} * kRun);
  Target<T> target{address<T>(out), nullptr, factor, accumulate};
  Tensor partial;
  if (cuts.chunks > 1) {
    partial = Tensor::empty({outer * cuts.chunks * columns}, DType::Float64, out.device());
    target.partial = address<double>(partial);
  }
  const dim3 tile(kTileColumns, kTileRows);
  const auto blocks = static_cast<unsigned>(tiles * cuts.chunks * outer);
  if (flat && rows <= kShortRow && outer > 1) {
    constexpr std::int64_t kRows = kThreads / kWarpLanes;
    op.launch({.blocks = static_cast<unsigned>((outer + kRows - 1) / kRows)}, short_rows_kernel<T, F>, target, term,
              cuts);
  } else if (flat) {
    op.launch({.blocks = blocks}, flat_kernel<T, F>, target, term, cuts);
  } else {
    op.launch({.blocks = blocks, .threads = tile}, tall_kernel<T, F>, target, term, cuts, tiles);
  }
  if (cuts.chunks == 1) return;
  // The chunks' sums are such a matrix again, of few rows.
  const Identity<double> chunk_sum{target.partial};
  const Cuts rest{outer, cuts.chunks, columns, 1, cuts.chunks};
  if (flat) {
    op.launch({.blocks = static_cast<unsigned>(outer)}, flat_kernel<T, Identity<double>>, target, chunk_sum, rest);
  } else {
    op.launch({.blocks = static_cast<unsigned>(tiles * outer), .threads = tile}, tall_kernel<T, Identity<double>>,
              target, chunk_sum, rest, tiles);
  }
}

}  // namespace

void sum(Tensor& out, const Tensor& a, double factor) {
  const Operation op("sum", out);
  with_float_type(a.dtype(), [&]<typename T>() {
    reduce_middle<T>(op, out, Identity<T>{address<T>(a)}, 1, a.numel(), 1, factor, false);
  });
}

void squared_error(Tensor& loss, const Tensor& a, const Tensor& b, double factor) {
  const Operation op("squared_error", loss);
  with_float_type(a.dtype(), [&]<typename T>() {
    reduce_middle<T>(op, loss, SquaredDifference<T>{address<T>(a), address<T>(b)}, 1, a.numel(), 1, factor, false);
  });
}

void column_sum(Tensor& out, const Tensor& a, bool accumulate) {
  const Operation op("column_sum", out);
  with_float_type(a.dtype(), [&]<typename T>() {
    reduce_middle<T>(op, out, Identity<T>{address<T>(a)}, 1, a.shape()[0], a.shape()[1], 1, accumulate);
  });
}

void sum_middle(Tensor& out, const Tensor& a, double factor) {
  const Operation op("sum_middle", out);
  with_float_type(a.dtype(), [&]<typename T>() {
    reduce_middle<T>(op, out, Identity<T>{address<T>(a)}, a.shape()[0], a.shape()[1], a.shape()[2], factor, false);
  });
}

void channel_dots(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  const Operation op("channel_dots", out);
  with_float_type(a.dtype(), [&]<typename T>() {
    reduce_middle<T>(op, out, Product<T>{address<T>(a), address<T>(b)}, a.shape()[0], a.shape()[1], a.shape()[2], 1,
                     accumulate);
  });
}

}  // namespace tutti::tensor::cuda
