// Sums of tensors on GPUs, by each way, against what the ranks' inputs say.
#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/trainer/device/device_all_reduce.h>
#include <tutti/trainer/device/device_ways.h>

#include <functional>
#include <ostream>

namespace tutti::trainer {
namespace {

using tensor::Device;
using tensor::DType;
using tensor::Tensor;

struct Case {
  std::string way;
  int ranks;
  int cards;  // ranks take turns on them
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.ranks << " ranks on " << c.cards << " by " << c.way; }

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.way + std::to_string(info.param.ranks) + "On" + std::to_string(info.param.cards);
}

class DeviceAllReduceBy : public testing::TestWithParam<Case> {
 protected:
  using Body = std::function<void(DeviceAllReduce& all_reduce, int rank, Device device)>;

  void SetUp() override {
    if (GetParam().cards > tensor::cuda_device_count()) GTEST_SKIP() << "needs " << GetParam().cards << " GPUs";
    const bool emulated = tensor::cuda_status().find("emulated") != std::string::npos;
    if (GetParam().way == "nccl" && (emulated || !against_nccl().empty())) GTEST_SKIP() << "NCCL needs a GPU";
  }

  void run(const Body& body) const {
    test::run_ranks(GetParam().ranks, [&](comm::ProcessGroup& group) {
      const Device device{Device::Kind::Cuda, group.rank() % GetParam().cards};
      const auto all_reduce = make_device_all_reduce(group, device, {.way = GetParam().way, .chunk_bytes = 4096});
      EXPECT_EQ(all_reduce->way(), GetParam().way);
      body(*all_reduce, group.rank(), device);
    });
  }
};

/// Element i of rank r; small whole numbers, so that every sum is exact.
std::int64_t element(int rank, std::int64_t i) { return (rank + 1) * 3 + i % 17; }

Tensor host_values(const std::vector<std::int64_t>& values, DType dtype) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values).to(dtype);
}

Tensor input_of(int rank, std::int64_t count, DType dtype, Device device) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = element(rank, i);
  return host_values(values, dtype).to(device);
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor values = tensor.to(Device()).to(DType::Float64);
  return {values.data<double>(), values.data<double>() + values.numel()};
}

std::vector<double> summed(int ranks, std::int64_t count) {
  std::vector<double> result(static_cast<std::size_t>(count));
  for (int r = 0; r < ranks; ++r) {
    for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] += static_cast<double>(element(r, i));
  }
  return result;
}

// Around the borders of packs, parts and chunks (4096 bytes): none, one, fewer than ranks, one more than a chunk,
// several.
TEST_P(DeviceAllReduceBy, SumsEveryTypeAndLengthAnywhereInMemory) {
  run([&](DeviceAllReduce& all_reduce, int rank, Device device) {
    for (const DType dtype : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
      for (const std::int64_t count : {0, 1, 5, 33, 1025, 3000}) {
        for (const std::int64_t offset : {0, 3}) {
          Tensor data = Tensor::empty({count + offset}, dtype, device).narrow(0, offset, count);
          data.copy_from(input_of(rank, count, dtype, device));
          all_reduce.sum(data);
          EXPECT_EQ(numbers_of(data), summed(GetParam().ranks, count)) << count << " of " << tensor::name(dtype);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceAllReduceBy,
                         testing::Values(Case{"nccl", 1, 1}, Case{"staged", 1, 1}, Case{"staged", 2, 1},
                                         Case{"staged", 3, 2}, Case{"staged", 4, 1}),
                         name_of);

TEST(DeviceAllReduceOf, CallsThatDifferAreAnErrorWithBothSides) {
  const auto failures = test::run_ranks_to_failure(2, [](comm::ProcessGroup& group) {
    const Device device{Device::Kind::Cuda, 0};
    const auto all_reduce = make_device_all_reduce(group, device, {.way = "staged"});
    Tensor data = Tensor::zeros({group.rank() == 0 ? 8 : 9}, DType::Float32, device);
    all_reduce->sum(data);
  });
  for (const auto& failure : failures) {
    ASSERT_TRUE(failure.has_value());
    const bool is_it = failure->code() == comm::ErrorCode::Mismatch || failure->code() == comm::ErrorCode::Aborted;
    EXPECT_TRUE(is_it) << failure->what();  // found here, or by the other rank first
    for (const char* part : {"float32 x 8", "float32 x 9", "rank 1", "called all_reduce"}) {
      EXPECT_NE(std::string(failure->what()).find(part), std::string::npos) << failure->what();
    }
  }
}

TEST(DeviceAllReduceOf, RefuseWhatTheyCannotDo) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {  // on one card
    EXPECT_THROW((void)make_device_all_reduce(group, {Device::Kind::Cuda, 0}, {.way = "nccl"}), std::runtime_error);
  });
  test::run_ranks(1, [](comm::ProcessGroup& group) {
    const Device device{Device::Kind::Cuda, 0};
    EXPECT_THROW((void)make_device_all_reduce(group, device, {.way = "carrier pigeon"}), std::runtime_error);
    EXPECT_THROW((void)make_device_all_reduce(group, {Device::Kind::Cuda, 17}), std::runtime_error);
    const auto all_reduce = make_device_all_reduce(group, device);
    EXPECT_EQ(all_reduce->way(), "staged");
    Tensor on_host = Tensor::zeros({4});
    EXPECT_THROW(all_reduce->sum(on_host), std::invalid_argument);
    Tensor turned = Tensor::zeros({4, 3}, DType::Float32, device).transpose(0, 1);
    EXPECT_THROW(all_reduce->sum(turned), std::invalid_argument);
    Tensor undefined;
    EXPECT_THROW(all_reduce->sum(undefined), std::invalid_argument);
  });
}

TEST(DeviceAllReduceOf, ARankThatIsGoneIsNamed) {
  const auto failures = test::run_ranks_to_failure(2,
                                                   [](comm::ProcessGroup& group) {
                                                     const Device device{Device::Kind::Cuda, 0};
                                                     const auto all_reduce =
                                                         make_device_all_reduce(group, device, {.way = "staged"});
                                                     if (group.rank() == 1)
                                                       throw comm::Error(comm::ErrorCode::System, "rank 1 gives up");
                                                     Tensor data = Tensor::zeros({8}, DType::Float32, device);
                                                     all_reduce->sum(data);
                                                   },
                                                   {.group = {.timeout = std::chrono::seconds(5)}});
  ASSERT_TRUE(failures[0].has_value());
  EXPECT_NE(std::string(failures[0]->what()).find("rank 1"), std::string::npos) << failures[0]->what();
}

}  // namespace
}  // namespace tutti::trainer
