// Device tensors, the allocator, streams and errors of tensor/cuda/.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/graph.h>
#include <tutti/tensor/cuda/memory.h>
#include <tutti/tensor/ops.h>
#include <tutti/tests/support/expect_text.h>

#include <thread>

#include "../support.h"
#include "on_both.h"
#if __has_include(<emulator.h>)
#include <emulator.h>
#define TUTTI_EMULATED_GPU
#endif

namespace tutti::tensor::test {
namespace {

/// Where there is one GPU alone, that one.
const Device kOther{Device::Kind::Cuda, cuda_device_count() - 1};

TEST(CudaTensor, AnswersAboutTheDevice) {
  EXPECT_TRUE(cuda_available());
  tutti::test::expect_parts(cuda_status(), {std::to_string(cuda_device_count()) + " CUDA device(s)", "the first is "});
}

TEST(CudaTensor, GoesThereAndBackAndBetween) {
  const Tensor here = random_tensor({13, 7}, 3, DType::Float32);
  const Tensor there = here.to(kGpu);
  EXPECT_EQ(there.device(), kGpu);
  EXPECT_EQ(values(there.to(Device{})), values(here));
  const Tensor further = there.to(kOther);
  EXPECT_EQ(further.device(), kOther);
  EXPECT_EQ(values(further.to(Device{})), values(here));
  EXPECT_EQ(Tensor::full({}, 2.5, DType::Float32, kGpu).item(), 2.5);
  EXPECT_EQ(Tensor::full({1}, 4, DType::Int64, kOther).item(), 4);
  EXPECT_EQ(values(Tensor::zeros({0, 3}, DType::Float32, kGpu).to(Device{})).size(), 0u);
}

TEST(CudaTensor, MovesItsMemoryForAllThatShareIt) {
  Tensor a = random_tensor({6}, 1, DType::Float32);
  const std::vector<double> before = values(a);
  const Tensor view = a.narrow(0, 2, 3);
  a.move_to(kGpu);
  EXPECT_EQ(view.device(), kGpu);
  EXPECT_EQ(values(view.to(Device{})), std::vector<double>(before.begin() + 2, before.begin() + 5));
  a.move_to(kOther);
  a.move_to(Device{});
  EXPECT_EQ(values(a), before);
}

TEST(CudaTensor, TheHostIsToldThatItCannotReadThere) {
  const Tensor there = Tensor::zeros({2}, DType::Float32, kGpu);
  tutti::test::expect_parts(text_of<std::invalid_argument>([&] { (void)there.data<float>(); }),
                            {"cuda:0", "to(Device{})"});
}

TEST(CudaTensor, ADeviceThatIsNotThereIsNamed) {
  tutti::test::expect_parts(
      text_of<std::runtime_error>([] {
        (void)Tensor::zeros({2}, DType::Float32, {Device::Kind::Cuda, kOther.index + 1});
      }),
      {"cuda:" + std::to_string(kOther.index + 1), " CUDA device(s)", "cuda:0 to " + name(kOther)});
}

TEST(CudaMemory, ABlockIsUsedAgain) {
  (void)Tensor::zeros({1000}, DType::Float32, kGpu);
  const std::size_t before = cuda::memory_use(kGpu).system_allocations;
  const std::size_t live = cuda::memory_use(kGpu).live_bytes;  // what earlier tests' operations keep (workspaces)
  for (int i = 0; i < 10; ++i) (void)Tensor::zeros({1000}, DType::Float32, kGpu);
  EXPECT_EQ(cuda::memory_use(kGpu).system_allocations, before);
  EXPECT_EQ(cuda::memory_use(kGpu).live_bytes, live);
  cuda::trim(kGpu);
  EXPECT_EQ(cuda::memory_use(kGpu).cached_bytes, 0u);
}

TEST(CudaMemoryDeathTest, AMemoryCheckerSeesEachBlockAsItWasAskedFor) {
  ::setenv("TUTTI_CUDA_CACHE", "0", 1);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the setting is read at the start
  const auto bytes = [] {
    (void)Tensor::zeros({10}, DType::Float32, kGpu);
    const Tensor two[] = {Tensor::zeros({10}, DType::Float32, kGpu), Tensor::zeros({3}, DType::UInt8, kGpu)};
    return static_cast<int>(cuda::memory_use(kGpu).live_bytes + cuda::memory_use(kGpu).cached_bytes);
  };
  EXPECT_EXIT(std::_Exit(bytes()), testing::ExitedWithCode(83), "");
  ::unsetenv("TUTTI_CUDA_CACHE");
}

TEST(CudaMemory, SizesAreRoundedUpByAFifthAtMost) {
  for (std::size_t bytes = 1; bytes < std::size_t{1} << 33; bytes += 1 + bytes / 7) {
    const std::size_t size = cuda::DeviceAllocator::block_size(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size, std::max<std::size_t>(bytes + bytes / 4 + 512, 512)) << bytes;
    EXPECT_EQ(cuda::DeviceAllocator::block_size(size), size);
  }
}

TEST(CudaMemory, ABlockWaitsForTheOtherStreamThatReadsIt) {
  cuda::trim(kGpu);
  cuda::Stream side(0);
  Tensor result = Tensor::empty({5000}, DType::Float32, kGpu);
  {
    Tensor x = Tensor::full({5000}, 3, DType::Float32, kGpu);
    cuda::Event made(0);
    made.record(cuda::current_stream(0));
    made.block(side.get());
    const cuda::StreamScope scope(0, side.get());
    result.copy_from(x);
    x = {};
  }
  const Tensor next = Tensor::full({5000}, 9, DType::Float32, kGpu);  // must not get x's memory yet
  EXPECT_EQ(next.to(Device{}).data<float>()[0], 9);
  const cuda::StreamScope scope(0, side.get());
  EXPECT_EQ(values(result.to(Device{})), std::vector<double>(5000, 3));
}

TEST(CudaMemory, ARecordingAsksAfterNoBlockInUse) {
  Tensor result = Tensor::zeros({10}, DType::Float32, kGpu);
  cuda::Stream side(0);
  Tensor given_back = Tensor::full({5000}, 3, DType::Float32, kGpu);
  {
    const cuda::StreamScope scope(0, side.get());
    given_back = {};
  }
  cuda::Graph graph(kGpu, [&] { result.copy_from(Tensor::full({10}, 2, DType::Float32, kGpu)); });
  graph.launch();
  EXPECT_EQ(values(result.to(Device{})), std::vector<double>(10, 2));
}

TEST(CudaMemory, PageLockedMemoryIsCopiedInTheBackground) {
  Tensor pinned = cuda::page_locked({100}, DType::Float32, kGpu);
  pinned.fill(4);
  Tensor there = Tensor::empty({100}, DType::Float32, kGpu);
  cuda::transfer_async(there, pinned);
  EXPECT_EQ(values(there.to(Device{})), std::vector<double>(100, 4));
  there.copy_from(pinned);
  pinned.fill(5);  // allowed: copy_from has read it
  EXPECT_EQ(values(there.to(Device{})), std::vector<double>(100, 4));
}

#if defined(TUTTI_EMULATED_GPU)
// A context takes some 500 MB of a card: eight ranks that each made one on cuda:0 would take 4 GB there.
TEST(CudaRuntime, WorkOnOneDeviceMakesNoContextOnAnother) {
  const cuda::Stream side(kOther.index);
  cuda::Event made(kOther.index);
  made.record(cuda::current_stream(kOther.index));
  std::thread([&] {
    (void)cuda_emulator::take_contexts();
    made.block(side.get());
    EXPECT_EQ((Tensor::full({2}, 1, DType::Float32, kOther).to(Device{}).data<float>()[1]), 1);
    EXPECT_EQ(cuda_emulator::take_contexts(), (std::vector<bool>{false, true}));
  }).join();
}

// resnet50 has 53 batch norms: at 20 launches each they were two thirds of a step's.
TEST(CudaRuntime, ABatchNormTakesTenLaunches) {
  const auto ones = [] { return Tensor::full({3}, 1).to(kGpu); };
  const Variable x(random_tensor({4, 2, 2, 3}, 5, DType::Float32).to(kGpu), true), weight(ones(), true),
      bias(ones(), true);
  const Tensor mean = ones(), variance = ones(), grad = random_tensor({4, 2, 2, 3}, 6, DType::Float32).to(kGpu);
  const std::uint64_t before = cuda_emulator::launches();
  Variable y = batch_norm(x, weight, bias, mean, variance, {});
  EXPECT_EQ(cuda_emulator::launches() - before, 4U);
  y.backward(grad);
  EXPECT_EQ(cuda_emulator::launches() - before, 10U);
}

TEST(CudaMemory, OutOfMemoryComesAfterTheCacheWasGivenBackAndSaysAll) {
  const std::int64_t quarter = (std::int64_t{512} << 20) / 4;
  {
    const Tensor a = Tensor::empty({quarter}, DType::Float32, kGpu);
    const Tensor b = Tensor::empty({quarter}, DType::Float32, kGpu);
  }
  EXPECT_GE(cuda::memory_use(kGpu).cached_bytes, static_cast<std::size_t>(quarter) * 8);
  const Tensor large = Tensor::empty({quarter * 3}, DType::Float32, kGpu);  // only after trimming
  EXPECT_EQ(cuda::memory_use(kGpu).cached_bytes, 0u);
  tutti::test::expect_parts(
      text_of<std::runtime_error>([&] { (void)Tensor::empty({quarter * 2}, DType::Float32, kGpu); }),
      {"out of memory", std::to_string(quarter * 8) + " bytes", "cuda:0", "of 2048 MiB are free", "1536 MiB in use",
       "0 MiB cached"});
  EXPECT_EQ(Tensor::full({}, 1, DType::Float32, kGpu).item(), 1) << "the device goes on";
}

TEST(CudaErrors, AFaultNamesTheOperationsThatMayHaveCausedIt) {
  Tensor x = Tensor::zeros({10}, DType::Float32, kOther);
  cuda::synchronize(kOther);
  cuda_emulator::fault_at(1, 2, cudaErrorIllegalAddress);
  kernels(kOther).add(x, x, x);
  kernels(kOther).mul(x, x, x, false);
  const std::string text = text_of<std::runtime_error>([&] { (void)x.to(Device{}); });
  tutti::test::expect_parts(text, {"cuda:1", "copy to the host", "an illegal memory access was encountered",
                                   "cudaErrorIllegalAddress", "add, mul", "TUTTI_CUDA_SYNC=1"});
  cuda_emulator::clear_fault(1);
}
#endif

}  // namespace
}  // namespace tutti::tensor::test
