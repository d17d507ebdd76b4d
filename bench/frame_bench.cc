// What a frame's header costs the processor: writing it, reading it, and comparing what it says with what was expected.

#include <benchmark/benchmark.h>
#include <tutti/comm/wire/frame.h>

namespace {

using namespace tutti::comm;

FrameHeader example() {
  FrameHeader header;
  header.fingerprint = {.group = 0x1234567890abcdef,
                        .seq = 17,
                        .count = 256,
                        .op = OpKind::AllReduce,
                        .dtype = DType::Float32,
                        .reduce_op = ReduceOp::Sum};
  header.nbytes = 1024;
  return header;
}

void encode_header(benchmark::State& state) {
  FrameHeader header = example();
  for (auto _ : state) {
    benchmark::DoNotOptimize(header);
    benchmark::DoNotOptimize(encode(header));
  }
}
BENCHMARK(encode_header);

void decode_header(benchmark::State& state) {
  FrameBytes bytes = encode(example());
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    benchmark::DoNotOptimize(decode_frame(bytes));
  }
}
BENCHMARK(decode_header);

void compare_fingerprints(benchmark::State& state) {
  FrameHeader ours = example();
  FrameHeader theirs = example();
  for (auto _ : state) {
    benchmark::DoNotOptimize(ours);
    benchmark::DoNotOptimize(theirs);
    benchmark::DoNotOptimize(ours.fingerprint == theirs.fingerprint);
  }
}
BENCHMARK(compare_fingerprints);

}  // namespace
