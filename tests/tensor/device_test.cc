// Devices and their memory: their names, what crosses between them, and what must not.

#include <gtest/gtest.h>
#include <tutti/tensor/allocator.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/in_threads.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "support.h"

namespace tutti::tensor {
namespace {

using tutti::test::expect_parts;

constexpr Device kFirst{};
constexpr Device kSecond{Device::Kind::Cpu, 1};

TEST(Device, ParsesItsOwnNames) {
  EXPECT_EQ(parse_device("cpu"), (Device{Device::Kind::Cpu, 0}));
  EXPECT_EQ(parse_device("cpu:0"), parse_device("cpu"));
  EXPECT_EQ(parse_device("cpu:3"), (Device{Device::Kind::Cpu, 3}));
  EXPECT_EQ(parse_device("cuda"), (Device{Device::Kind::Cuda, 0}));
  EXPECT_EQ(parse_device("cuda:3"), (Device{Device::Kind::Cuda, 3}));
  for (const char* text : {"cpu", "cpu:1", "cpu:12", "cuda:0", "cuda:3"}) EXPECT_EQ(name(parse_device(text)), text);
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU", "cuda:99999999999",
                            "cpu:", "cpu1", "cpu:-1", "cpu:1 ", "cpu::1", ":1"}) {
    EXPECT_THROW(parse_device(wrong), std::invalid_argument) << wrong;
  }
}

TEST(Device, CudaAnswersAgree) {
  EXPECT_EQ(cuda_available(), cuda_device_count() > 0);
  EXPECT_FALSE(cuda_status().empty());
}

TEST(Device, AGpuThatCannotComputeIsRefusedByName) {
  const Device none = parse_device("cuda:99");  // more than any machine has
  for (const std::string& text :
       {test::text_of<std::runtime_error>([&] { (void)Tensor::zeros({2}).to(none); }),
        test::text_of<std::runtime_error>([&] { Tensor::empty({1}, DType::Float32, none); })}) {
    expect_parts(text, {"cuda:99", "use device cpu"});
  }
  EXPECT_THROW(Tensor::zeros({2}).move_to(none), std::runtime_error);
}

TEST(Device, ToCopiesTheValuesAndLeavesTheOriginal) {
  Tensor a = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  Tensor b = a.transpose(0, 1).to(kSecond);
  EXPECT_EQ(b.device(), kSecond);
  EXPECT_EQ(test::values(b), (std::vector<double>{1, 3, 2, 4}));
  b.fill(0);
  EXPECT_EQ(test::values(a), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_TRUE(a.to(kFirst).shares_storage(a));
  EXPECT_EQ(b.clone().device(), kSecond);
  EXPECT_EQ(b.narrow(0, 0, 1).device(), kSecond);
  EXPECT_EQ(b.to(DType::Float64).device(), kSecond);
}

TEST(Device, MoveToTakesAllThatShareTheMemoryAlong) {
  Tensor a = Tensor::full({4}, 3);
  const Tensor view = a.narrow(0, 1, 2);
  a.move_to(kSecond);
  EXPECT_EQ(view.device(), kSecond);
  EXPECT_EQ(view.data<float>()[0], 3);

  std::vector<float> memory(4);
  Tensor borrowed = Tensor::over(memory.data(), nullptr, {4}, DType::Float32);
  const std::string text = test::text_of<std::logic_error>([&] { borrowed.move_to(kSecond); });
  expect_parts(text, {"cpu cannot move to cpu:1"});
  EXPECT_EQ(Tensor::over(memory.data(), nullptr, {4}, DType::Float32, kSecond).device(), kSecond);
}

TEST(Device, SharedMemoryIsTheSameUnderAnotherName) {
  Tensor block = Tensor::full({6}, 1);
  Tensor part = block.narrow(0, 2, 2).shared_with(kSecond);
  EXPECT_EQ(part.device(), kSecond);
  EXPECT_EQ(block.device(), kFirst);
  part.fill(7);
  EXPECT_EQ(test::values(block), (std::vector<double>{1, 1, 7, 7, 1, 1}));
  block = {};
  EXPECT_EQ(test::values(part), (std::vector<double>{7, 7}));  // keeps the memory alive
  EXPECT_THROW((void)part.shared_with(parse_device("cuda:0")), std::invalid_argument);
}

TEST(Device, AnOperationAcrossDevicesNamesBothAndItself) {
  const Variable x(Tensor::full({2, 3}, 1));
  const Variable w(Tensor::full({4, 3}, 1, DType::Float32, kSecond), true);
  EXPECT_EQ(test::text_of<std::invalid_argument>([&] { (void)linear(x, w, {}); }),
            "linear: float32 (2, 3) and float32 (4, 3) lie on different devices, cpu and cpu:1; move one with to()");

  const Variable a(Tensor::zeros({2, 3}, DType::Float32, kSecond));
  const Tensor labels = Tensor::zeros({2}, DType::Int64);
  const Variable turned = reshape(a, {3, 2}), image = reshape(x, {1, 2, 1, 3}), filters = reshape(w, {4, 3, 1, 1});
  const std::vector<Variable> both{x, a};
  const std::pair<std::string, std::function<void()>> cases[] = {
      {"add", [&] { (void)add(x, a); }},
      {"mul", [&] { (void)mul(a, x); }},
      {"matmul", [&] { (void)matmul(x, turned); }},
      {"concat", [&] { (void)concat(both, 0); }},
      {"mse_loss", [&] { (void)mse_loss(a, x.data()); }},
      {"cross_entropy", [&] { (void)cross_entropy(a, labels); }},
      {"nll_loss", [&] { (void)nll_loss(a, labels); }},
      {"dropout", [&] { (void)dropout(a, 0.5, labels, 0); }},
      {"scale_rows", [&] { (void)scale_rows(a, Tensor::zeros({2})); }},
      {"conv2d", [&] { (void)conv2d(image, filters, {}); }},
      {"batch_norm",
       [&] { (void)batch_norm(a, Variable(Tensor::zeros({3})), Variable(Tensor::zeros({3})), labels, labels, {}); }},
  };
  for (const auto& [operation, body] : cases) {
    const std::string text = test::text_of<std::invalid_argument>(body);
    EXPECT_EQ(text.rfind(operation, 0), 0u) << text;
    EXPECT_NE(text.find("cpu:1"), std::string::npos) << operation << ": " << text;
  }
  const Variable loss = sum(linear(to(x, kSecond), w, {}));
  EXPECT_THROW(Variable(loss).backward(Tensor::full({}, 1)), std::invalid_argument);
}

TEST(Device, ToIsRecordedAndItsGradientMovesBack) {
  Variable x(Tensor::from<double>({2}, {3, 5}), true);
  // x is used on both devices, so that its gradient gets two contributions, one of which has come from afar.
  const Variable here = mul(x, x);
  const Variable there = mul(to(x, kSecond), to(x, kSecond));
  Variable loss = sum(add(here, to(there, kFirst)));
  loss.backward();
  EXPECT_EQ(x.grad().device(), kFirst);
  EXPECT_EQ(test::values(x.grad()), (std::vector<double>{12, 20}));
  EXPECT_EQ(to(x, kFirst).impl(), x.impl());

  const NoGrad off;
  EXPECT_FALSE(to(x, kSecond).requires_grad());
}

TEST(Device, ToHasTheGradientOfTheIdentity) {
  test::gradcheck(
      [](const std::vector<Variable>& in) { return mul(in[0], to(tanh(to(mul(in[0], in[1]), kSecond)), kFirst)); },
      {test::random_tensor({3, 4}, 1), test::random_tensor({3, 4}, 2)});
}

TEST(Device, AModelCutInTwoHasTheBitsOfTheWhole) {
  const auto gradients = [](Device second) {
    const Variable w1(test::random_tensor({8, 5}, 1, DType::Float32), true);
    Variable w2(test::random_tensor({3, 8}, 2, DType::Float32), true);
    w2.move_to(second);
    const Variable x(test::random_tensor({4, 5}, 3, DType::Float32));
    const Variable hidden = linear(x, w1, {}, Activation::Relu);
    const Variable y = linear(to(hidden, second), w2, {});
    Variable loss = cross_entropy(y, Tensor::from<std::int64_t>({4}, {0, 1, 2, 0}).to(second));
    loss.backward();
    EXPECT_EQ(w1.grad().device(), kFirst);
    EXPECT_EQ(w2.grad().device(), second);
    std::vector<double> all = test::values(w1.grad());
    for (const double value : test::values(w2.grad())) all.push_back(value);
    return all;
  };
  EXPECT_EQ(gradients(kFirst), gradients(kSecond));
}

TEST(Device, ALeafMovesWithItsGradientUnlessThatIsSomebodyElses) {
  Variable w(Tensor::full({2}, 2), true);
  Variable loss = sum(mul(w, w));
  loss.backward();
  const Variable handle = w;
  w.move_to(kSecond);
  EXPECT_EQ(handle.data().device(), kSecond);
  EXPECT_EQ(handle.grad().device(), kSecond);
  EXPECT_EQ(test::values(handle.grad()), (std::vector<double>{4, 4}));

  EXPECT_THROW(w.set_grad_memory(Tensor::zeros({2})), std::invalid_argument);
  w.set_grad_memory(Tensor::zeros({2}, DType::Float32, kSecond));
  const std::string text = test::text_of<std::logic_error>([&] { w.move_to(kFirst); });
  expect_parts(text, {"cannot move from cpu:1 to cpu"});

  const Variable y = mul(w, w);
  EXPECT_THROW(Variable(y).move_to(kFirst), std::logic_error);
}

TEST(Allocator, ReusesAFreedBlockOfTheSameClass) {
  CachingAllocator allocator;
  void* first = allocator.allocate(1000);
  allocator.deallocate(first, 1000);
  EXPECT_GT(allocator.cached_bytes(), 0u);
  void* second = allocator.allocate(1010);
  EXPECT_EQ(first, second);
  EXPECT_EQ(allocator.system_allocations(), 1u);
  allocator.deallocate(second, 1010);
}

TEST(Allocator, BlocksFitAndWasteLittle) {
  for (std::size_t bytes = 0; bytes < 5000; ++bytes) {
    const std::size_t block = CachingAllocator::block_size(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_EQ(block % CachingAllocator::kAlignment, 0u);
    ASSERT_LE(block, bytes + bytes / 4 + CachingAllocator::kAlignment);
  }
  for (int log2 = 13; log2 < 40; ++log2) {
    for (const std::size_t bytes :
         {(std::size_t{1} << log2) - 1, std::size_t{1} << log2, (std::size_t{1} << log2) + 1}) {
      ASSERT_GE(CachingAllocator::block_size(bytes), bytes);
      ASSERT_LE(CachingAllocator::block_size(bytes), bytes + bytes / 4 + CachingAllocator::kAlignment);
    }
  }
}

// The flags that the kernel shows of the mapping that holds `address`; empty where it shows none.
std::string mapping_flags(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2) {
      inside = first <= wanted && wanted < last;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return {};
}

TEST(Allocator, LargeBlocksAskForHugePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "the kernel has no huge pages";
  CachingAllocator allocator;
  constexpr std::size_t kLarge = 2 * CachingAllocator::kHugePage;
  auto* const block = static_cast<std::byte*>(allocator.allocate(kLarge));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % CachingAllocator::kHugePage, 0u);
  EXPECT_NE(mapping_flags(block).find(" hg"), std::string::npos) << mapping_flags(block);
  EXPECT_NE(mapping_flags(block + kLarge - 1).find(" hg"), std::string::npos);
  std::memset(block, 0x5a, kLarge);
  allocator.deallocate(block, kLarge);
  EXPECT_EQ(allocator.allocate(kLarge), block);
  allocator.deallocate(block, kLarge);
}

TEST(Allocator, CountsLiveBytesAndTrims) {
  CachingAllocator allocator;
  std::vector<std::pair<void*, std::size_t>> blocks;
  std::size_t expected = 0;
  for (std::size_t bytes = 1; bytes < 20'000'000; bytes = bytes * 3 + 1) {
    blocks.emplace_back(allocator.allocate(bytes), bytes);
    std::memset(blocks.back().first, 0x5a, bytes);
    expected += CachingAllocator::block_size(bytes);
  }
  EXPECT_EQ(allocator.live_bytes(), expected);
  for (const auto& [block, bytes] : blocks) allocator.deallocate(block, bytes);
  EXPECT_EQ(allocator.live_bytes(), 0u);
  EXPECT_EQ(allocator.cached_bytes(), expected);
  allocator.trim();
  EXPECT_EQ(allocator.cached_bytes(), 0u);
}

TEST(Allocator, RefusesWhatNoMachineHas) {
  CachingAllocator allocator;
  EXPECT_THROW(allocator.allocate(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  EXPECT_EQ(allocator.live_bytes(), 0u);
  allocator.deallocate(nullptr, 100);
}

TEST(Allocator, ThreadsShareIt) {
  CachingAllocator allocator;
  tutti::test::in_threads(4, [&allocator](int id) {
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = 64 + static_cast<std::size_t>(i % 7) * 100;
      void* block = allocator.allocate(bytes);
      std::memset(block, id, bytes);
      allocator.deallocate(block, bytes);
    }
  });
  EXPECT_EQ(allocator.live_bytes(), 0u);
}

}  // namespace
}  // namespace tutti::tensor
