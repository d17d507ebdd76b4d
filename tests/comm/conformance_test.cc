// Every collective on every transport and world: all counts from all roots, all types with all operators, all
// algorithms by name, several groups at once. One world is formed for each test, which loops inside it.
#include "conformance.h"

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/tests/support/full_run.h>
#include <tutti/tests/support/run_ranks.h>

#include <array>
#include <cmath>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

namespace tutti::comm {
namespace {

using test::Net;
using test::run_ranks;

constexpr std::size_t kSegmentBytes = 4096;
constexpr std::size_t kPrime = 97;
constexpr std::size_t kLarge = 20'011;  // 20 segments of floats; a prime, too

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int type = 0; type <= static_cast<int>(kLastDType); ++type) types.push_back(static_cast<DType>(type));
  return types;
}

std::vector<ReduceOp> operators_of(DType dtype) {
  std::vector<ReduceOp> operators;
  for (int op = 0; op <= static_cast<int>(kLastReduceOp); ++op)
    if (refusal(static_cast<ReduceOp>(op), dtype).empty()) operators.push_back(static_cast<ReduceOp>(op));
  return operators;
}

/// Types, operators and the asynchronous form take turns.
class Turns {
 public:
  void call(ProcessGroup& group, OpKind kind, std::size_t count, int root) {
    const auto types = all_types();
    const DType dtype = types[turn_ % types.size()];
    const auto operators = operators_of(dtype);
    const ReduceOp op = operators[turn_ / types.size() % operators.size()];
    ExactCall call(group, kind, {dtype, count, root, op, turn_ % 3 == 0});
    call.run();
    if (kind == OpKind::AllGather || kind == OpKind::ReduceScatter) call.run_in_place();
    ++turn_;
  }

 private:
  std::size_t turn_ = 0;
};

class Conformance : public testing::TestWithParam<std::tuple<Net, int>> {
 protected:
  void run(const test::RankBody& body) const {
    test::RunRanksOptions options{.net = std::get<Net>(GetParam())};
    options.watchdog = std::chrono::seconds(240);  // a minute's work for 8 ranks on 2 processors under a sanitizer
    options.group.segment_bytes = kSegmentBytes;
    run_ranks(world(), body, options);
  }
  int world() const { return std::get<int>(GetParam()); }
  /// The larger worlds take some roots, types and operators.
  bool samples() const { return world() > 4 && !test::kFullRun; }

  /// All ranks, or the first and the last.
  std::vector<int> roots() const {
    if (samples()) return {0, world() - 1};
    std::vector<int> all(static_cast<std::size_t>(world()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  /// All types, or every fourth.
  std::vector<DType> types() const {
    std::vector<DType> some = all_types();
    if (samples()) std::erase_if(some, [](DType type) { return static_cast<int>(type) % 4 != 0; });
    return some;
  }
  /// All that `dtype` has, or one: another for each type.
  std::vector<ReduceOp> operators(DType dtype) const {
    const auto all = operators_of(dtype);
    if (samples()) return {all[static_cast<std::size_t>(dtype) % all.size()]};
    return all;
  }
};

TEST_P(Conformance, EveryCountFromEveryRoot) {
  const auto p = static_cast<std::size_t>(world());
  const std::size_t segment = kSegmentBytes / 4;
  const std::vector<std::size_t> counts = {0, 1, p - 1, p, p + 1, kPrime, segment - 1, segment, segment + 1, kLarge};
  run([&](ProcessGroup& group) {
    Turns turns;
    for (const std::size_t count : counts) {
      for (const OpKind kind : kOfAll) turns.call(group, kind, count, 0);
      for (const OpKind kind : kRooted)
        for (const int root : roots()) turns.call(group, kind, count, root);
    }
  });
}

TEST_P(Conformance, EveryTypeWithEveryOperator) {
  run([&](ProcessGroup& group) {
    int root = 0;
    const auto call = [&](OpKind kind, DType dtype, std::size_t count, ReduceOp op) {
      ExactCall(group, kind, {dtype, count, root % world(), op, root % 2 == 0}).run();
      ++root;
    };
    for (const DType dtype : types())
      for (const std::size_t count : {kPrime, kLarge}) {
        for (const OpKind kind : kRooted)
          if (!is_reduction(kind)) call(kind, dtype, count, ReduceOp::Sum);
        for (const OpKind kind : kOfAll)
          if (!is_reduction(kind)) call(kind, dtype, count, ReduceOp::Sum);
        for (const ReduceOp op : operators(dtype))
          for (const OpKind kind : {OpKind::Reduce, OpKind::AllReduce, OpKind::ReduceScatter, OpKind::ReduceScatterV})
            call(kind, dtype, count, op);
      }
  });
}

TEST_P(Conformance, EveryAlgorithmByName) {
  run([&](ProcessGroup& group) {
    const auto p = static_cast<std::size_t>(world());
    Turns turns;
    const auto take = [&](OpKind kind, const std::vector<int>& roots) {
      for (const std::string_view algorithm : algorithms::names_for(kind)) {
        group.use_algorithm(std::string(algorithm));
        EXPECT_EQ(group.algorithm_for(kind, kLarge, DType::Float32), algorithm);
        for (const int root : roots)
          for (const std::size_t count : {std::size_t{0}, std::size_t{1}, p + 1, kPrime, kLarge})
            turns.call(group, kind, count, root);
      }
    };
    for (const OpKind kind : kOfAll) take(kind, {0});
    for (const OpKind kind : kRooted) take(kind, {0, world() - 1});
  });
}

/// Numbers whose sum depends on the order: not-a-numbers of each rank's own, zeros of both signs, and fractions.
template <typename T>
std::vector<T> awkward(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float fraction = 1.0f / static_cast<float>(i % 331 + 1 + 17 * static_cast<std::size_t>(rank));
    values[i] = T(i % 97 == 5   ? std::nanf(std::to_string(rank + 1).c_str())
                  : i % 97 == 6 ? (rank % 2 == 0 ? 0.0f : -0.0f)
                                : fraction * (i % 2 == 0 ? 1 : -1));
  }
  return values;
}

template <typename T>
void append_results(ProcessGroup& group, std::string& results) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max})
    for (const std::size_t count : {std::size_t{1}, kPrime, kLarge}) {
      auto data = awkward<T>(group.rank(), count);
      group.all_reduce(std::span<T>(data), op);
      results.append(reinterpret_cast<const char*>(data.data()), count * sizeof(T));
    }
}

TEST_P(Conformance, AllRanksHoldTheSameBits) {
  std::vector<std::string> results(static_cast<std::size_t>(world()));
  run([&](ProcessGroup& group) {
    std::string& mine = results[static_cast<std::size_t>(group.rank())];
    std::vector<std::string_view> algorithms = algorithms::names_for(OpKind::AllReduce);
    algorithms.push_back("");
    for (const std::string_view algorithm : algorithms) {
      group.use_algorithm(std::string(algorithm));
      append_results<float>(group, mine);
      if (samples()) continue;
      append_results<double>(group, mine);
      append_results<Half>(group, mine);
      append_results<BFloat16>(group, mine);
    }
  });
  for (const std::string& result : results) {
    EXPECT_EQ(result.size(), results[0].size());
    EXPECT_TRUE(result == results[0]) << "rank " << &result - results.data();
  }
}

/// The world, its halves, and pairs of neighbours in a row, each with collectives in flight from a thread of its own.
TEST_P(Conformance, SeveralGroupsAtOnce) {
  run([&](ProcessGroup& group) {
    const auto half = group.split(group.rank() % 2);
    const auto reversed = group.split(0, -group.rank());
    const auto work = [](ProcessGroup& some, bool async) {
      for (int round = 0; round < 3; ++round)
        for (const std::size_t count : {std::size_t{1}, kPrime, kLarge}) {
          const int root = round % some.world_size();
          for (const OpKind kind : kOfAll) ExactCall(some, kind, {.count = count, .async = async}).run();
          for (const OpKind kind : kRooted)
            ExactCall(some, kind, {.dtype = DType::Int64, .count = count, .root = root, .async = async}).run();
        }
    };
    std::thread first([&] { work(*half, true); });
    std::thread second([&] { work(*reversed, false); });
    work(group, true);
    first.join();
    second.join();
  });
}

/// Collectives of three groups are issued in turn by one thread, and waited for from the last to the first.
TEST_P(Conformance, AsynchronousOnesOfSeveralGroupsOverlap) {
  run([&](ProcessGroup& group) {
    const auto half = group.split(group.rank() % 2);
    const auto reversed = group.split(0, -group.rank());
    const std::array<ProcessGroup*, 3> groups = {&group, half.get(), reversed.get()};
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Work> works;
    for (int round = 0; round < 12; ++round) data.emplace_back(round % 4 == 0 ? kLarge : kPrime, group.rank() + round);
    for (std::size_t round = 0; round < data.size(); ++round)
      works.push_back(groups[round % 3]->all_reduce_async(buffer(std::span(data[round]))));
    for (std::size_t round = data.size(); round-- > 0;) {
      works[round].wait();
      std::int32_t sum = 0;
      for (const int rank : groups[round % 3]->world_ranks()) sum += rank + static_cast<std::int32_t>(round);
      EXPECT_EQ(data[round], std::vector(data[round].size(), sum)) << "round " << round;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         testing::Combine(testing::ValuesIn(test::available({Net::Inproc, Net::Tcp, Net::Shm,
                                                                             Net::Mixed, Net::Tls, Net::Ucx})),
                                          testing::ValuesIn(test::kFullRun ? std::vector<int>{1, 2, 3, 4, 5, 7, 8}
                                                                           : std::vector<int>{1, 2, 3, 4, 7})),
                         [](const auto& world) {
                           return name(std::get<Net>(world.param)) + std::to_string(std::get<int>(world.param));
                         });

}  // namespace
}  // namespace tutti::comm
