// Collectives on the memory of GPUs, by each way, against what the ranks' inputs say.
#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/trainer/device/device_collectives.h>
#include <tutti/trainer/device/device_ways.h>

#include <numeric>
#include <ostream>

namespace tutti::trainer {
namespace {

using comm::ReduceOp;
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

class DeviceCollectivesOf : public testing::TestWithParam<Case> {
 protected:
  using Body = std::function<void(DeviceCollectives& collectives, int rank)>;

  void SetUp() override {
    if (GetParam().cards > tensor::cuda_device_count()) GTEST_SKIP() << "needs " << GetParam().cards << " GPUs";
    const bool emulated = tensor::cuda_status().find("emulated") != std::string::npos;
    if (GetParam().way == "nccl" && (emulated || !against_nccl().empty())) GTEST_SKIP() << "NCCL needs a GPU";
  }

  void run(const Body& body) const {
    test::run_ranks(GetParam().ranks, [&](comm::ProcessGroup& group) {
      const Device device{Device::Kind::Cuda, group.rank() % GetParam().cards};
      const auto collectives = make_device_collectives(group, device, {.way = GetParam().way, .chunk_bytes = 4096});
      EXPECT_EQ(collectives->way(), GetParam().way);
      body(*collectives, group.rank());
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

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor values = tensor.to(Device()).to(DType::Float64);
  return {values.data<double>(), values.data<double>() + values.numel()};
}

std::vector<double> reduced(int ranks, std::int64_t count, ReduceOp op) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i) {
    auto value = static_cast<double>(element(0, i));
    for (int r = 1; r < ranks; ++r) {
      const auto other = static_cast<double>(element(r, i));
      value = op == ReduceOp::Prod  ? value * other
              : op == ReduceOp::Min ? std::min(value, other)
              : op == ReduceOp::Max ? std::max(value, other)
                                    : value + other;
    }
    result.push_back(op == ReduceOp::Avg ? value / ranks : value);
  }
  return result;
}

// Around the borders of packs, parts and chunks (4096 bytes): none, one, fewer than ranks, one more than a chunk,
// several.
constexpr std::int64_t kCounts[] = {0, 1, 5, 33, 1025, 3000};

TEST_P(DeviceCollectivesOf, AllReduceInRegisteredMemoryAndAnywhereElse) {
  run([&](DeviceCollectives& collectives, int rank) {
    for (const std::int64_t count : kCounts) {
      Tensor registered = collectives.allocate({count + 3}, DType::Float32);
      for (Tensor data :
           {registered.narrow(0, 3, count), Tensor::empty({count}, DType::Float32, collectives.device())}) {
        data.copy_from(input_of(rank, count, DType::Float32, collectives.device()));
        collectives.all_reduce(data);
        EXPECT_EQ(values_of(data), reduced(GetParam().ranks, count, ReduceOp::Sum)) << count << " elements";
      }
    }
  });
}

TEST_P(DeviceCollectivesOf, EveryTypeAndOperator) {
  run([&](DeviceCollectives& collectives, int rank) {
    for (const DType dtype : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
        const bool floating = dtype == DType::Float32 || dtype == DType::Float64;
        if (op == ReduceOp::Avg && !floating) continue;
        if (op == ReduceOp::Prod && dtype == DType::UInt8) continue;  // would wrap round
        Tensor data = input_of(rank, 40, dtype, collectives.device());
        collectives.all_reduce(data, op);
        const auto expected = reduced(GetParam().ranks, 40, op);
        const auto found = values_of(data);
        for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]);
      }
    }
  });
}

TEST_P(DeviceCollectivesOf, BroadcastAndReduceFromAndToEveryRoot) {
  run([&](DeviceCollectives& collectives, int rank) {
    for (int root = 0; root < GetParam().ranks; ++root) {
      for (const std::int64_t count : kCounts) {
        const Tensor input = input_of(rank, count, DType::Float64, collectives.device());
        Tensor data = input.clone();
        collectives.broadcast(data, root);
        EXPECT_EQ(values_of(data), values_of(input_of(root, count, DType::Float64, collectives.device())));

        Tensor output;
        if (rank == root) output = Tensor::zeros({count}, DType::Float64, collectives.device());
        collectives.reduce(input, output, ReduceOp::Sum, root);
        if (rank == root) {
          EXPECT_EQ(values_of(output), reduced(GetParam().ranks, count, ReduceOp::Sum));
        }
        EXPECT_EQ(values_of(input), values_of(input_of(rank, count, DType::Float64, collectives.device())));
      }
    }
  });
}

TEST_P(DeviceCollectivesOf, BlocksGoWhereTheyBelong) {
  const int ranks = GetParam().ranks;
  run([&](DeviceCollectives& collectives, int rank) {
    const Device device = collectives.device();
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1500}}) {
      std::vector<double> side_by_side;
      for (int r = 0; r < ranks; ++r) {
        for (std::int64_t i = 0; i < count; ++i) side_by_side.push_back(static_cast<double>(element(r, i)));
      }
      const Tensor mine = input_of(rank, count, DType::Float32, device);
      Tensor whole = Tensor::zeros({count * ranks}, DType::Float32, device);
      collectives.all_gather(mine, whole);
      EXPECT_EQ(values_of(whole), side_by_side);

      Tensor gathered = rank == ranks - 1 ? Tensor::zeros({count * ranks}, DType::Float32, device) : Tensor();
      collectives.gather(mine, gathered, ranks - 1);
      if (rank == ranks - 1) {
        EXPECT_EQ(values_of(gathered), side_by_side);
      }

      Tensor part = Tensor::zeros({count}, DType::Float32, device);
      collectives.scatter(rank == 0 ? whole : Tensor(), part, 0);
      EXPECT_EQ(values_of(part), values_of(mine));

      collectives.reduce_scatter(whole, part);  // every rank gave the same
      std::vector<double> times = values_of(mine);
      for (double& value : times) value *= ranks;
      EXPECT_EQ(values_of(part), times);

      Tensor turned = Tensor::zeros({count * ranks}, DType::Float32, device);
      collectives.all_to_all(whole, turned);
      std::vector<double> own_blocks;
      for (int r = 0; r < ranks; ++r) {
        for (std::int64_t i = 0; i < count; ++i) own_blocks.push_back(static_cast<double>(element(rank, i)));
      }
      EXPECT_EQ(values_of(turned), own_blocks);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceCollectivesOf,
                         testing::Values(Case{"nccl", 1, 1}, Case{"staged", 1, 1}, Case{"staged", 2, 1},
                                         Case{"staged", 3, 2}, Case{"staged", 4, 1}),
                         name_of);

TEST(DeviceCollectives, CallsThatDifferAreAnErrorWithBothSides) {
  const auto failures = test::run_ranks_to_failure(2, [](comm::ProcessGroup& group) {
    const Device device{Device::Kind::Cuda, 0};
    const auto collectives = make_device_collectives(group, device, {.way = "staged"});
    Tensor data = Tensor::zeros({group.rank() == 0 ? 8 : 9}, DType::Float32, device);
    collectives->all_reduce(data);
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

TEST(DeviceCollectives, RefuseWhatTheyCannotDo) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {  // on one card
    EXPECT_THROW((void)make_device_collectives(group, {Device::Kind::Cuda, 0}, {.way = "nccl"}), std::runtime_error);
  });
  test::run_ranks(1, [](comm::ProcessGroup& group) {
    const Device device{Device::Kind::Cuda, 0};
    EXPECT_THROW((void)make_device_collectives(group, device, {.way = "carrier pigeon"}), std::runtime_error);
    EXPECT_THROW((void)make_device_collectives(group, {Device::Kind::Cuda, 17}), std::runtime_error);
    const auto collectives = make_device_collectives(group, device);
    EXPECT_EQ(collectives->way(), "staged");
    Tensor on_host = Tensor::zeros({4});
    EXPECT_THROW(collectives->all_reduce(on_host), std::invalid_argument);
    Tensor turned = Tensor::zeros({4, 3}, DType::Float32, device).transpose(0, 1);
    EXPECT_THROW(collectives->all_reduce(turned), std::invalid_argument);
    Tensor whole = Tensor::zeros({4}, DType::Int64, device);
    EXPECT_THROW(collectives->all_reduce(whole, ReduceOp::Avg), comm::Error);
    EXPECT_THROW(collectives->broadcast(whole, 5), comm::Error);
  });
}

TEST(DeviceCollectives, ARankThatIsGoneIsNamed) {
  const auto failures = test::run_ranks_to_failure(2,
                                                   [](comm::ProcessGroup& group) {
                                                     const Device device{Device::Kind::Cuda, 0};
                                                     const auto collectives =
                                                         make_device_collectives(group, device, {.way = "staged"});
                                                     if (group.rank() == 1)
                                                       throw comm::Error(comm::ErrorCode::System, "rank 1 gives up");
                                                     Tensor data = Tensor::zeros({8}, DType::Float32, device);
                                                     collectives->all_reduce(data);
                                                   },
                                                   {.group = {.timeout = std::chrono::seconds(5)}});
  ASSERT_TRUE(failures[0].has_value());
  EXPECT_NE(std::string(failures[0]->what()).find("rank 1"), std::string::npos) << failures[0]->what();
}

}  // namespace
}  // namespace tutti::trainer
