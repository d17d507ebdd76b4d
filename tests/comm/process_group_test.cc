// Every collective, over both transports, worlds 1 to 8, counts around the chunk boundaries, all roots: exact results.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/run_ranks.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <ostream>
#include <vector>

namespace tutti::comm {
namespace {

using test::Net;
using test::run_ranks;
using test::RunRanksOptions;

struct Case {
  Net net;
  int world_size;
  std::string algorithm;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.world_size << " ranks " << c.algorithm; }

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.net == Net::Tcp ? "Tcp" : "Inproc") + std::to_string(info.param.world_size) +
         (info.param.algorithm.empty() ? "" : "_" + info.param.algorithm);
}

class Collectives : public testing::TestWithParam<Case> {
 protected:
  RunRanksOptions options() const {
    RunRanksOptions options{.net = GetParam().net};
    options.group.algorithm = GetParam().algorithm;
    options.group.segment_bytes = 4096;  // several segments at small sizes
    return options;
  }
  int world() const { return GetParam().world_size; }

  std::vector<std::size_t> counts() const {
    const auto p = static_cast<std::size_t>(world());
    return {0, 1, p - 1, p, p + 1, 97, 1023, 1024, 1025, 20011};
  }
};

/// Small integers, so that every order of summation is exact.
template <typename T>
T element(int rank, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 7 + i * 3) % 11 + 1);
}

template <typename T>
std::vector<T> input_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = element<T>(rank, i);
  return values;
}

template <typename T>
T reduced(ReduceOp op, int world, std::size_t i) {
  std::vector<T> column;
  for (int rank = 0; rank < world; ++rank) column.push_back(element<T>(rank, i));
  switch (op) {
    case ReduceOp::Sum:
      return std::accumulate(column.begin(), column.end(), T(0));
    case ReduceOp::Avg:
      return static_cast<T>(std::accumulate(column.begin(), column.end(), T(0)) / static_cast<T>(world));
    case ReduceOp::Prod:
      return std::accumulate(column.begin(), column.end(), T(1), [](T a, T b) { return static_cast<T>(a * b); });
    case ReduceOp::Min:
      return *std::min_element(column.begin(), column.end());
    case ReduceOp::Max:
      return *std::max_element(column.begin(), column.end());
    case ReduceOp::BAnd:
    case ReduceOp::BOr:
    case ReduceOp::BXor:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    return std::accumulate(column.begin() + 1, column.end(), column[0], [op](T a, T b) {
      return static_cast<T>(op == ReduceOp::BAnd ? a & b : op == ReduceOp::BOr ? a | b : a ^ b);
    });
  }
  return T();
}

TEST_P(Collectives, AllReduceSumsExactly) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : counts()) {
          auto data = input_of<float>(group.rank(), count);
          group.all_reduce(std::span<float>(data));
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(data[i], reduced<float>(ReduceOp::Sum, world(), i)) << "count " << count << " element " << i;
        }
      },
      options());
}

template <typename T>
void expect_all_reduce(ProcessGroup& group, ReduceOp op, std::size_t count) {
  auto data = input_of<T>(group.rank(), count);
  group.all_reduce(std::span<T>(data), op);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(data[i], reduced<T>(op, group.world_size(), i)) << name(op) << " " << name(DTypeOf<T>::value) << " " << i;
}

TEST_P(Collectives, AllReduceOfEveryTypeAndOperator) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : {5u, 3001u}) {
          for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
            expect_all_reduce<double>(group, op, count);
            expect_all_reduce<std::int64_t>(group, op, count);
            expect_all_reduce<std::uint8_t>(group, op, count);
            if (op != ReduceOp::Prod) expect_all_reduce<float>(group, op, count);
            if (op != ReduceOp::Prod || group.world_size() < 8) expect_all_reduce<std::int32_t>(group, op, count);
          }
          expect_all_reduce<double>(group, ReduceOp::Avg, count);
        }
      },
      options());
}

/// Half and BFloat16 hold these small integers exactly, so they must give what float gives.
template <typename T>
void expect_all_reduce_like_float(ProcessGroup& group, ReduceOp op, std::size_t count) {
  const auto floats = input_of<float>(group.rank(), count);
  std::vector<T> data;
  for (const float value : floats) data.push_back(T(value));
  group.all_reduce(std::span<T>(data), op);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(static_cast<float>(data[i]), static_cast<float>(T(reduced<float>(op, group.world_size(), i))))
        << name(op) << " " << name(DTypeOf<T>::value) << " element " << i;
}

TEST_P(Collectives, AllReduceOfNarrowAndUnsignedTypes) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : {1u, 3001u}) {
          for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min, ReduceOp::Max}) {
            expect_all_reduce_like_float<Half>(group, op, count);
            expect_all_reduce_like_float<BFloat16>(group, op, count);
          }
          for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::BAnd,
                                    ReduceOp::BOr, ReduceOp::BXor}) {
            expect_all_reduce<std::int8_t>(group, op, count);
            expect_all_reduce<std::uint16_t>(group, op, count);
            expect_all_reduce<std::uint64_t>(group, op, count);
          }
        }
      },
      options());
}

TEST_P(Collectives, AllReduceOfBools) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        // Element 0: nobody; 1: everybody; 2: the last rank; 3: all but the last.
        const bool last = group.rank() == world() - 1;
        for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::BOr}) {
          bool flags[] = {false, true, last, !last};
          group.all_reduce(std::span<bool>(flags), op);
          EXPECT_TRUE(!flags[0] && flags[1] && flags[2] && flags[3] == (world() > 1)) << name(op);
        }
        for (const ReduceOp op : {ReduceOp::Prod, ReduceOp::Min, ReduceOp::BAnd}) {
          bool flags[] = {false, true, last, !last};
          group.all_reduce(std::span<bool>(flags), op);
          EXPECT_TRUE(!flags[0] && flags[1] && flags[2] == (world() == 1) && !flags[3]) << name(op);
        }
        bool flags[] = {false, true, last, !last};
        group.all_reduce(std::span<bool>(flags), ReduceOp::BXor);
        EXPECT_TRUE(!flags[0] && flags[1] == (world() % 2 == 1) && flags[2] && flags[3] == (world() % 2 == 0));
      },
      options());
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (int root = 0; root < world(); ++root)
          for (const std::size_t count : counts()) {
            auto data = input_of<double>(group.rank(), count);
            group.broadcast(std::span<double>(data), root);
            ASSERT_EQ(data, input_of<double>(root, count)) << "root " << root << " count " << count;
          }
      },
      options());
}

TEST_P(Collectives, ReduceToEveryRootLeavesInputsAlone) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (int root = 0; root < world(); ++root)
          for (const std::size_t count : counts()) {
            const auto input = input_of<float>(group.rank(), count);
            const auto before = input;
            std::vector<float> output(group.rank() == root ? count : 0);
            group.reduce(const_buffer(std::span(input)), buffer(std::span(output)), ReduceOp::Sum, root);
            ASSERT_EQ(input, before);
            for (std::size_t i = 0; i < output.size(); ++i)
              ASSERT_EQ(output[i], reduced<float>(ReduceOp::Sum, world(), i)) << "root " << root;
          }
      },
      options());
}

TEST_P(Collectives, GatherScatterAllGather) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        const auto p = static_cast<std::size_t>(world());
        for (const std::size_t count : counts()) {
          std::vector<std::int64_t> everything;
          for (int rank = 0; rank < world(); ++rank) {
            const auto block = input_of<std::int64_t>(rank, count);
            everything.insert(everything.end(), block.begin(), block.end());
          }
          const auto input = input_of<std::int64_t>(group.rank(), count);
          std::vector<std::int64_t> all(p * count);
          group.all_gather(const_buffer(std::span(input)), buffer(std::span(all)));
          ASSERT_EQ(all, everything) << "count " << count;
          for (int root = 0; root < world(); ++root) {
            const bool is_root = group.rank() == root;
            std::vector<std::int64_t> gathered(is_root ? p * count : 0);
            group.gather(const_buffer(std::span(input)), buffer(std::span(gathered)), root);
            if (is_root) {
              ASSERT_EQ(gathered, everything) << "root " << root << " count " << count;
            }
            std::vector<std::int64_t> mine(count);
            const std::span<const std::int64_t> source(everything.data(), is_root ? everything.size() : 0);
            group.scatter(const_buffer(source), buffer(std::span(mine)), root);
            ASSERT_EQ(mine, input) << "root " << root << " count " << count;
          }
        }
      },
      options());
}

template <typename T>
void expect_reduce_scatter(ProcessGroup& group, ReduceOp op, std::size_t count) {
  const auto p = static_cast<std::size_t>(group.world_size());
  const auto input = input_of<T>(group.rank(), p * count);
  const auto before = input;
  std::vector<T> output(count);
  group.reduce_scatter(const_buffer(std::span(input)), buffer(std::span(output)), op);
  ASSERT_EQ(input, before);
  const std::size_t first = static_cast<std::size_t>(group.rank()) * count;
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(output[i], reduced<T>(op, group.world_size(), first + i))
        << name(op) << " " << name(DTypeOf<T>::value) << " count " << count << " element " << i;
}

TEST_P(Collectives, ReduceScatterLeavesInputsAlone) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : counts()) expect_reduce_scatter<float>(group, ReduceOp::Sum, count);
        for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
          expect_reduce_scatter<double>(group, op, 1025);
          expect_reduce_scatter<std::uint8_t>(group, op, 1025);
          expect_reduce_scatter<std::int64_t>(group, op, 1025);
        }
        expect_reduce_scatter<std::uint16_t>(group, ReduceOp::BXor, 1025);
        expect_reduce_scatter<double>(group, ReduceOp::Avg, 1025);
      },
      options());
}

/// What rank `from` sends to rank `to`.
std::vector<std::int32_t> block_between(int from, int to, std::size_t count) {
  return input_of<std::int32_t>(100 * from + to, count);
}

TEST_P(Collectives, AllToAllTransposesBlocks) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : counts()) {
          std::vector<std::int32_t> input, expected;
          for (int peer = 0; peer < world(); ++peer) {
            const auto sent = block_between(group.rank(), peer, count);
            const auto received = block_between(peer, group.rank(), count);
            input.insert(input.end(), sent.begin(), sent.end());
            expected.insert(expected.end(), received.begin(), received.end());
          }
          const auto before = input;
          std::vector<std::int32_t> output(input.size());
          group.all_to_all(const_buffer(std::span(input)), buffer(std::span(output)));
          ASSERT_EQ(output, expected) << "count " << count;
          ASSERT_EQ(input, before);
        }
      },
      options());
}

TEST_P(Collectives, ReduceScatterAndAllToAllAsynchronously) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        const auto p = static_cast<std::size_t>(world());
        const auto input = input_of<float>(group.rank(), 501 * p);
        std::vector<float> sums(501), there(input.size()), back(input.size());
        Work first = group.reduce_scatter_async(const_buffer(std::span(input)), buffer(std::span(sums)));
        Work second = group.all_to_all_async(const_buffer(std::span(input)), buffer(std::span(there)));
        Work third = group.all_to_all_async(const_buffer(std::span(there)), buffer(std::span(back)));
        for (Work* work : {&third, &second, &first}) work->wait();
        EXPECT_EQ(back, input);
        const std::size_t own = static_cast<std::size_t>(group.rank()) * 501;
        for (std::size_t i = 0; i < sums.size(); ++i)
          ASSERT_EQ(sums[i], reduced<float>(ReduceOp::Sum, world(), own + i));
      },
      options());
}

TEST_P(Collectives, SendrecvAroundARingBothWays) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        const int right = (group.rank() + 1) % world(), left = (group.rank() + world() - 1) % world();
        for (const std::size_t count : {0, 1, 1000, 20'000, 300'000}) {  // eager and announced
          const auto mine = input_of<float>(group.rank(), count);
          std::vector<float> theirs(count);
          const int from = group.sendrecv(const_buffer(std::span(mine)), right, buffer(std::span(theirs)), left, 3, 3);
          ASSERT_EQ(from, left);
          ASSERT_EQ(theirs, input_of<float>(left, count)) << count;
          const int any = group.sendrecv(const_buffer(std::span(mine)), left, buffer(std::span(theirs)), kAnySource,
                                         static_cast<int>(count), static_cast<int>(count));
          ASSERT_EQ(any, right);
          ASSERT_EQ(theirs, input_of<float>(right, count)) << count;
        }
      },
      options());
}

TEST_P(Collectives, BarrierLetsNobodyThroughEarly) {
  std::atomic<int> arrived{0};
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (int round = 1; round <= 20; ++round) {
          ++arrived;
          group.barrier();
          ASSERT_GE(arrived.load(), round * world());
          group.barrier();
        }
      },
      options());
}

TEST_P(Collectives, AsynchronousOnesRunInIssueOrder) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        std::vector<std::vector<float>> data;
        std::vector<Work> works;
        for (std::size_t i = 0; i < 8; ++i) data.push_back(input_of<float>(group.rank(), 2000 + i));
        for (auto& values : data) works.push_back(group.all_reduce_async(buffer(std::span(values))));
        std::vector<float> last = input_of<float>(group.rank(), 10);
        group.all_reduce(std::span<float>(last));  // synchronous, behind the queue
        for (Work& work : works) EXPECT_TRUE(work.is_completed());
        for (Work& work : works) work.wait();
        for (const auto& values : data)
          for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], reduced<float>(ReduceOp::Sum, world(), i));
      },
      options());
}

TEST_P(Collectives, RealNumbersGiveTheSameBitsOnAllRanks) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(world()));
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        std::vector<float> data(5003);
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = 1.0f / static_cast<float>(i + 1 + 17 * static_cast<std::size_t>(group.rank()));
        group.all_reduce(std::span<float>(data));
        results[static_cast<std::size_t>(group.rank())] = data;
      },
      options());
  for (const auto& result : results)
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Net net : {Net::Inproc, Net::Tcp})
    for (const int world : {1, 2, 3, 4, 5, 7, 8}) all.push_back({net, world, ""});
  for (const Net net : {Net::Inproc, Net::Tcp})
    for (const char* algorithm : {"direct", "bruck"})
      for (const int world : {3, 6}) all.push_back({net, world, algorithm});
  for (const char* algorithm : {"ring", "recursive_doubling"})
    for (const int world : {2, 3, 7}) all.push_back({Net::Tcp, world, algorithm});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(cases()), case_name);

TEST(ProcessGroup, LargeAllReduceOverTcpKeepsBothDirectionsMoving) {
  run_ranks(2,
            [&](ProcessGroup& group) {
              std::vector<float> data(8 << 20, static_cast<float>(group.rank() + 1));
              for (int i = 0; i < 3; ++i) group.all_reduce(std::span<float>(data));
              EXPECT_EQ(data.front(), 12.0f);
              EXPECT_EQ(data.back(), 12.0f);
            },
            {.net = Net::Tcp});
}

TEST(ProcessGroup, RefusesWrongArgumentsBeforeSendingAnything) {
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<float> data(3);
    std::vector<std::int32_t> integers(3);
    const auto code_of = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(name(error.code())) + "|" + error.what();
      }
      return std::string("no error");
    };
    EXPECT_NE(code_of([&] { group.broadcast(std::span<float>(data), 2); }).find("invalid argument|rank"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.broadcast(std::span<float>(data), 2); }).find("root 2 is no rank of a world of 2"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.all_reduce(std::span<std::int32_t>(integers), ReduceOp::Avg); }).find("avg of int32"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.all_reduce(std::span<float>(data), ReduceOp::BXor); }).find("bxor of float32"),
              std::string::npos);
    bool flags[3] = {};
    EXPECT_NE(code_of([&] { group.all_reduce(std::span<bool>(flags), ReduceOp::Avg); }).find("avg of bool"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.all_reduce(Buffer{nullptr, 3, DType::Float32});
              }).find("null pointer"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.send(std::span<float>(data), 5); }).find("there is no rank 5"), std::string::npos);
    EXPECT_NE(code_of([&] {
                group.all_gather(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)));
              }).find("needed"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.all_to_all(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)));
              }).find("all_to_all: input holds 3 elements, which cannot be cut into 2 equal blocks"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.reduce_scatter(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)));
              }).find("reduce_scatter: input holds 3 elements, but 6 are needed"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                const Buffer empty{nullptr, 0, DType::Float16};
                group.reduce_scatter(empty, empty, ReduceOp::BAnd);
              }).find("band of float16"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.sendrecv(const_buffer(std::span<float>(data)), 2, buffer(std::span<float>(data)));
              }).find("there is no rank 2"),
              std::string::npos);
    group.barrier();  // the group is unharmed
  });
}

TEST(ProcessGroup, CallsAfterShutdownSaySo) {
  run_ranks(3,
            [&](ProcessGroup& group) {
              group.shutdown();
              try {
                group.barrier();
                FAIL() << "barrier after shutdown";
              } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::Aborted);
                EXPECT_NE(std::string(error.what()).find("has been shut down"), std::string::npos);
              }
            },
            {.net = Net::Tcp});
}

}  // namespace
}  // namespace tutti::comm
