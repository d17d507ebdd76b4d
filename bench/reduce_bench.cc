// Reduction kernels against memcpy: both should run at the speed of the cache level or memory that holds the data.
//
// Bytes per second count what is read and written: 3 n for a reduction, 2 n for memcpy, n being the size of one vector
// (the benchmark's argument, in bytes).
#include <benchmark/benchmark.h>
#include <tutti/comm/reduce/reduce.h>

#include <cstring>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::int64_t kFromBytes = 4 << 10;
constexpr std::int64_t kToBytes = 64 << 20;
constexpr int kStep = 16;  // 4 KiB (L1), 64 KiB (L2), 1 MiB (L2 or L3), 16 MiB (L3 or memory), 64 MiB

void copy(benchmark::State& state) {
  const auto nbytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> target(nbytes), source(nbytes, std::byte{1});
  for (auto _ : state) {
    std::memcpy(target.data(), source.data(), nbytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}

void reduce(benchmark::State& state, DType dtype, ReduceOp op, bool incoming_first) {
  const auto nbytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> target(nbytes, std::byte{0}), incoming(nbytes, std::byte{0});
  for (auto _ : state) {
    reduce_into(target.data(), incoming.data(), nbytes / size_of(dtype), dtype, op, incoming_first);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 3 * state.range(0));
}

/// `rows` vectors in place, as all_reduce does it in registered buffers: 2 rows n bytes.
void reduce_in_place(benchmark::State& state, std::size_t rows) {
  const auto nbytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<std::byte>> data(rows, std::vector<std::byte>(nbytes));
  std::vector<std::byte*> targets;
  for (auto& row : data) targets.push_back(row.data());
  const std::vector<const std::byte*> sources(targets.begin(), targets.end());
  for (auto _ : state) {
    reduce_all(targets, sources, nbytes / sizeof(float), DType::Float32, ReduceOp::Sum);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(rows) * state.range(0));
}

void scale(benchmark::State& state, DType dtype, int divisor) {
  const auto nbytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> data(nbytes, std::byte{0});
  for (auto _ : state) {
    scale_down(data.data(), nbytes / size_of(dtype), dtype, divisor);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(kStep)->Range(kFromBytes, kToBytes);
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float32_sum, DType::Float32, ReduceOp::Sum, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float32_sum_incoming_first, DType::Float32, ReduceOp::Sum, true)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float32_max, DType::Float32, ReduceOp::Max, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float64_sum, DType::Float64, ReduceOp::Sum, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float64_prod, DType::Float64, ReduceOp::Prod, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float16_sum, DType::Float16, ReduceOp::Sum, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, float16_max, DType::Float16, ReduceOp::Max, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, bfloat16_sum, DType::BFloat16, ReduceOp::Sum, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, bool_sum, DType::Bool, ReduceOp::Sum, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, uint16_prod, DType::UInt16, ReduceOp::Prod, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, int32_min, DType::Int32, ReduceOp::Min, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, int64_prod, DType::Int64, ReduceOp::Prod, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, uint8_sum, DType::UInt8, ReduceOp::Sum, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce, uint8_prod, DType::UInt8, ReduceOp::Prod, false)->Apply(sizes);
BENCHMARK_CAPTURE(reduce_in_place, float32_sum_of_2, 2)->Apply(sizes);
BENCHMARK_CAPTURE(reduce_in_place, float32_sum_of_4, 4)->Apply(sizes);
BENCHMARK_CAPTURE(scale, float32_by_3, DType::Float32, 3)->Apply(sizes);
BENCHMARK_CAPTURE(scale, float32_by_4, DType::Float32, 4)->Apply(sizes);
BENCHMARK_CAPTURE(scale, float64_by_3, DType::Float64, 3)->Apply(sizes);

}  // namespace
}  // namespace tutti::comm
