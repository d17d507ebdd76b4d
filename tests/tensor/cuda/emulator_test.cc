// The emulator itself: what a GPU promises and what it forbids.
#include <emulator.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace cuda_emulator {
namespace {

template <typename... P, typename... A>
cudaError_t run(dim3 grid, dim3 block, cudaStream_t stream, void (*kernel)(P...), A... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}

// Each block reverses its 64 elements through shared memory.
__global__ void reverse(int* data) {
  __shared__ int line[64];
  line[threadIdx.x] = data[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  data[blockIdx.x * 64 + threadIdx.x] = line[63 - threadIdx.x];
}

__global__ void warp_functions(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  int sum = lane;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  out[threadIdx.x] = sum;
}

__global__ void diverge() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncwarp(0xffffffffu);
  }
}

__global__ void set(int* data, int value) { data[threadIdx.x] = value; }

class Emulator : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    void* block = nullptr;
    ASSERT_EQ(cudaMalloc(&block, kCount * sizeof(int)), cudaSuccess);
    data_ = static_cast<int*>(block);
  }
  void TearDown() override {
    EXPECT_EQ(cudaFree(data_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  std::vector<int> read() {
    std::vector<int> values(kCount);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_, kCount * sizeof(int), cudaMemcpyDeviceToHost, stream_),
              cudaSuccess);
    return values;
  }

  static constexpr std::size_t kCount = 256;
  cudaStream_t stream_ = nullptr;
  int* data_ = nullptr;
};

TEST_F(Emulator, BarriersKeepThreadsInStep) {
  std::vector<int> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 0);
  ASSERT_EQ(cudaMemcpyAsync(data_, numbers.data(), kCount * sizeof(int), cudaMemcpyHostToDevice, stream_), cudaSuccess);
  ASSERT_EQ(run(4, 64, stream_, reverse, data_), cudaSuccess);
  const std::vector<int> got = read();
  for (int i = 0; i < static_cast<int>(kCount); ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)], i / 64 * 64 + 63 - i % 64);
}

TEST_F(Emulator, WarpFunctionsExchange) {
  ASSERT_EQ(run(1, 64, stream_, warp_functions, data_), cudaSuccess);
  const std::vector<int> got = read();
  for (std::size_t thread = 0; thread < 64; ++thread) EXPECT_EQ(got[thread], 31 * 16);
}

TEST_F(Emulator, NothingRunsBeforeSomebodyWaits) {
  int* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&pinned), sizeof(int), 0), cudaSuccess);
  *pinned = 1;
  ASSERT_EQ(run(1, 1, stream_, set, data_, 7), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned, data_, sizeof(int), cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(*pinned, 1);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*pinned, 7);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Emulator, AStreamWaitsForAnotherOnlyWhenTold) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(run(1, 1, other, set, data_, 5), cudaSuccess);
  EXPECT_EQ(read()[0], -1) << "fresh memory";
  ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
  EXPECT_EQ(read()[0], 5);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Emulator, AGraphRunsWhatWasRecordedEachTime) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(run(1, 1, stream_, set, data_, 1), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(run(1, 1, stream_, set, data_, 9), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  EXPECT_EQ(read()[0], 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(run(1, 1, stream_, set, data_, 1), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    EXPECT_EQ(read()[0], 9);
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(Emulator, RefusesWhatAGpuRefuses) {
  EXPECT_EQ(run(0, 32, stream_, set, data_, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run(1, 1025, stream_, set, data_, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run(dim3(1, 70'000), 32, stream_, set, data_, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  std::vector<int> many(kCount * 4);
  EXPECT_EQ(cudaMemcpyAsync(many.data(), data_, kCount * 4 * sizeof(int), cudaMemcpyDeviceToHost, stream_),
            cudaErrorInvalidValue);
}

using EmulatorDeathTest = Emulator;

TEST_F(EmulatorDeathTest, ABlockThatCannotGoOnSaysWhere) {
  ASSERT_EQ(run(1, 32, stream_, diverge), cudaSuccess);
  EXPECT_DEATH((void)cudaStreamSynchronize(stream_), "16 wait at __syncthreads, 16 at a warp's barrier");
  fault_at(0, 1, cudaErrorLaunchFailure);  // so that it never runs here
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  clear_fault(0);
}

TEST_F(EmulatorDeathTest, TheHostMayNotTouchDeviceMemory) { EXPECT_DEATH(*data_ = 1, ""); }

}  // namespace
}  // namespace cuda_emulator
