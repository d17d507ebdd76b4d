// Collectives on registered buffers: on those of all ranks, of some, and on parts of them.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/net_test.h>
#include <tutti/tests/support/full_run.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using Registers = std::function<bool(int)>;  // whether a rank does

const std::vector<Registers> kWhoRegisters{[](int) { return true; }, [](int rank) { return rank != 1; },
                                           [](int rank) { return rank == 1; }, [](int) { return false; }};

/// Some numbers, registered or not.
template <typename T>
class Numbers {
 public:
  Numbers(ProcessGroup& group, std::size_t count, const Registers& registers) : plain_(count) {
    if (!registers(group.rank())) return;
    registered_ = group.allocate(count * sizeof(T));
  }
  std::span<T> all() { return registered_.memory ? registered_.as<T>() : std::span<T>(plain_); }

 private:
  std::vector<T> plain_;
  RegisteredBuffer registered_;
};

using Floats = Numbers<float>;

/// What element `i` of a rank's contribution is; sums of few are exact.
float value(int rank, std::size_t i) { return static_cast<float>(i % 13) + static_cast<float>(rank * 100); }

float sum(int ranks, std::size_t i) {
  return static_cast<float>(ranks) * static_cast<float>(i % 13) + static_cast<float>(ranks * (ranks - 1) / 2 * 100);
}

void fill(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(rank, i);
}

void all_reduce(ProcessGroup& group, std::size_t count, const Registers& registers) {
  Floats data(group, count, registers);
  fill(data.all(), group.rank());
  group.all_reduce(data.all());
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data.all()[i], sum(group.world_size(), i)) << "element " << i;
}

/// Sums that need more bits than a float has, and zeros of both signs.
void all_reduce_rounded(ProcessGroup& group, std::size_t count, const Registers& registers) {
  const auto part = [](int rank, std::size_t i) {
    return i % 5 == 0 ? -0.0 : static_cast<double>(i % 13) * 0x1p-40 + (rank + 1) * 0.5;
  };
  for (const Registers& registers_result : {registers, kWhoRegisters[0]}) {
    Numbers<double> sums(group, count, registers);
    Floats rounded(group, count, registers_result);
    for (std::size_t i = 0; i < count; ++i) sums.all()[i] = part(group.rank(), i);
    group.all_reduce_rounded({sums.all().data(), count, DType::Float64}, {rounded.all().data(), count, DType::Float32});
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int rank = 0; rank < group.world_size(); ++rank) sum += part(rank, i);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(rounded.all()[i]), std::bit_cast<std::uint32_t>(static_cast<float>(sum)))
          << "element " << i;
    }
  }
}

void reduce_scatter(ProcessGroup& group, std::size_t count, const Registers& registers) {
  Floats input(group, count * static_cast<std::size_t>(group.world_size()), registers);
  std::vector<float> output(count);
  for (int round = 0; round < 2; ++round) {  // what is written after the call is not seen by the others' last one
    fill(input.all(), group.rank() + round);
    group.reduce_scatter(input.all(), std::span<float>(output));
    for (std::size_t i = 0; i < input.all().size(); ++i) ASSERT_EQ(input.all()[i], value(group.rank() + round, i));
    const std::size_t first = count * static_cast<std::size_t>(group.rank());
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(output[i], sum(group.world_size(), first + i) + static_cast<float>(100 * round * group.world_size()))
          << "element " << i << " of round " << round;
  }
}

void all_gather(ProcessGroup& group, std::size_t count, const Registers& registers) {
  Floats output(group, count * static_cast<std::size_t>(group.world_size()), registers);
  std::vector<float> input(count);
  for (int round = 0; round < 2; ++round) {
    fill(input, group.rank() + round);
    group.all_gather(std::span<float>(input), output.all());
    for (int rank = 0; rank < group.world_size(); ++rank)
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(output.all()[static_cast<std::size_t>(rank) * count + i], value(rank + round, i))
            << "element " << i << " of rank " << rank << "'s block in round " << round;
  }
}

void reduce_scatter_in_place(ProcessGroup& group, std::size_t count, const Registers& registers) {
  Floats data(group, count * static_cast<std::size_t>(group.world_size()), registers);
  const std::size_t first = count * static_cast<std::size_t>(group.rank());
  for (const bool at_once : {true, false}) {
    fill(data.all(), group.rank());
    const Buffer own = buffer(data.all().subspan(first, count));
    if (at_once) {
      group.reduce_scatter(buffer(data.all()), own);
    } else {
      group.reduce_scatter_async(buffer(data.all()), own).wait();
    }
    for (std::size_t i = 0; i < data.all().size(); ++i) {
      const bool is_own = i >= first && i < first + count;
      ASSERT_EQ(data.all()[i], is_own ? sum(group.world_size(), i) : value(group.rank(), i)) << "element " << i;
    }
  }
}

void all_gather_in_place(ProcessGroup& group, std::size_t count, const Registers& registers) {
  Floats data(group, count * static_cast<std::size_t>(group.world_size()), registers);
  const std::span<float> own = data.all().subspan(count * static_cast<std::size_t>(group.rank()), count);
  fill(own, group.rank());
  group.all_gather(own, data.all());
  for (int rank = 0; rank < group.world_size(); ++rank)
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(data.all()[static_cast<std::size_t>(rank) * count + i], value(rank, i))
          << "element " << i << " of rank " << rank << "'s block";
}

void broadcast(ProcessGroup& group, std::size_t count, const Registers& registers) {
  Floats data(group, count, registers);
  for (int root = 0; root < group.world_size(); ++root) {
    fill(data.all(), group.rank() == root ? 10 + root : 0);
    group.broadcast(data.all(), root);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(data.all()[i], value(10 + root, i)) << "element " << i << " from rank " << root;
  }
}

struct NamedOperation {
  const char* name;
  void (*run)(ProcessGroup&, std::size_t, const Registers&);
};

constexpr NamedOperation kOperations[] = {{"AllReduce", all_reduce},
                                          {"Broadcast", broadcast},
                                          {"AllReduceRounded", all_reduce_rounded},
                                          {"ReduceScatter", reduce_scatter},
                                          {"AllGatherInPlace", all_gather_in_place},
                                          {"AllGather", all_gather},
                                          {"ReduceScatterInPlace", reduce_scatter_in_place}};

/// Where ranks reach each other's buffers: all lengths in which the ways differ, in worlds of some sizes.
class RegisteredInMemory : public testing::TestWithParam<std::tuple<Net, NamedOperation>> {};

TEST_P(RegisteredInMemory, BuffersOfAllLengthsAreUsedLikeOthers) {
  for (const int world : test::kFullRun ? std::vector{1, 2, 3, 5} : std::vector{1, 3})
    run_ranks(std::get<Net>(GetParam()), world, [](ProcessGroup& group) {
      for (const std::size_t count : {1, 1000, 1025, 8192, 8193, 100'003, 400'000})
        for (const Registers& registers : kWhoRegisters)
          std::get<NamedOperation>(GetParam()).run(group, count, registers);
    });
}

INSTANTIATE_TEST_SUITE_P(All, RegisteredInMemory,
                         testing::Combine(testing::Values(Net::Shm, Net::Mixed), testing::ValuesIn(kOperations)),
                         [](const auto& one) {
                           return name(std::get<Net>(one.param)) + std::get<NamedOperation>(one.param).name;
                         });

class Registered : public OverNets {};

TEST_P(Registered, OperationsFollowEachOther) {
  run(3, [](ProcessGroup& group) {
    for (int round = 0; round < 20; ++round)
      for (const NamedOperation& operation : kOperations)
        operation.run(group, 20'000, kWhoRegisters[static_cast<std::size_t>(round) % kWhoRegisters.size()]);
  });
}

TEST_P(Registered, AnAverageInPlaceIsDividedOnce) {
  run(3, [](ProcessGroup& group) {
    const auto memory = group.allocate(400'000);
    for (float& value : memory.as<float>()) value = static_cast<float>(3 * group.rank());
    group.all_reduce(memory.as<float>(), ReduceOp::Avg);
    for (const float value : memory.as<float>()) ASSERT_EQ(value, 3.0F);
  });
}

TEST_P(Registered, PartsOfBuffersAndBuffersThatComeAndGo) {
  run(2, [](ProcessGroup& group) {
    for (int round = 0; round < 200; ++round) {  // more than a group can register at a time
      const auto memory = group.allocate(64 * 1024 + static_cast<std::size_t>(round) * 4);
      const auto data = memory.as<std::int32_t>().subspan(static_cast<std::size_t>(round % 7), 16'000);
      std::iota(data.begin(), data.end(), round);
      group.all_reduce(data);
      for (std::size_t i = 0; i < data.size(); ++i)
        ASSERT_EQ(data[i], 2 * (round + static_cast<std::int32_t>(i))) << "round " << round;
    }
  });
}

TEST_P(Registered, MoreBuffersThanEntriesAreOrdinaryMemory) {
  run(2, [](ProcessGroup& group) {
    std::vector<RegisteredBuffer> all;
    for (int i = 0; i < 70; ++i) all.push_back(group.allocate(64 * 1024));
    for (const RegisteredBuffer& buffer : all) {
      buffer.as<float>()[16'000] = 1;
      group.all_reduce(buffer.as<float>());
      ASSERT_EQ(buffer.as<float>()[16'000], 2);
    }
  });
}

TEST_P(Registered, MoreMemoryThanThereIsIsRefusedAtOnce) {
  run(2, [](ProcessGroup& group) {
    for (const std::size_t bytes : {std::size_t{1} << 46, std::numeric_limits<std::size_t>::max()}) {
      test::expect_error(ErrorCode::System, {"KiB of memory and swap left"}, [&] { group.allocate(bytes); });
    }
  });
}

TEST_P(Registered, ABufferOutlivesItsGroup) {
  std::vector<RegisteredBuffer> kept(2);
  run(2, [&](ProcessGroup& group) {
    auto& mine = kept[static_cast<std::size_t>(group.rank())];
    mine = group.allocate(1 << 20);
    mine.as<float>()[5] = 2;
    group.all_reduce(mine.as<float>());
  });
  for (const RegisteredBuffer& buffer : kept) EXPECT_EQ(buffer.as<float>()[5], 4);
}

INSTANTIATE_TEST_SUITE_P(Nets, Registered, testing::Values(Net::Inproc, Net::Tcp, Net::Shm, Net::Mixed),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::comm
