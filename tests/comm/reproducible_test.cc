// Reproducible reductions: the bits of a sum of real numbers, element by element in the order of the ranks.
#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/tests/comm/collectives_fixture.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

namespace tutti::comm {
namespace {

/// Numbers of very different sizes, whose sum depends on the order.
template <typename T>
std::vector<T> real_input(int rank, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(T(std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 16) - 8)));
  return values;
}

/// What the kernels add in: 16-bit types in float, rounded after each addition, others in themselves.
template <typename T>
T plus(T a, T b) {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  return T(static_cast<Wide>(a) + static_cast<Wide>(b));
}

template <typename T>
std::vector<T> left_fold(int world, std::size_t count) {
  auto sum = real_input<T>(0, count);
  for (int rank = 1; rank < world; ++rank) {
    const auto next = real_input<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] = plus(sum[i], next[i]);
  }
  return sum;
}

template <typename T>
void expect_same_bits(const T* found, const T* expected, std::size_t count, const char* what) {
  if (count == 0) return;
  EXPECT_EQ(std::memcmp(found, expected, count * sizeof(T)), 0) << what << " " << name(DTypeOf<T>::value);
}

template <typename T>
void expect_left_folds(ProcessGroup& group, std::size_t block) {
  const auto p = static_cast<std::size_t>(group.world_size()), self = static_cast<std::size_t>(group.rank());
  const std::size_t count = p * block;
  const auto input = real_input<T>(group.rank(), count);
  const auto expected = left_fold<T>(group.world_size(), count);
  auto data = input;
  group.all_reduce(std::span<T>(data));
  expect_same_bits(data.data(), expected.data(), count, "all_reduce");
  std::vector<T> uneven(input.begin(), input.end() - 1);
  group.all_reduce(std::span<T>(uneven));
  expect_same_bits(uneven.data(), expected.data(), count - 1, "uneven all_reduce");
  for (int root = 0; root < group.world_size(); ++root) {
    std::vector<T> output(group.rank() == root ? count : 0);
    group.reduce(std::span(input), std::span(output), ReduceOp::Sum, root);
    expect_same_bits(output.data(), expected.data(), output.size(), "reduce");
  }
  std::vector<T> own(block);
  group.reduce_scatter(std::span(input), std::span(own));
  expect_same_bits(own.data(), expected.data() + self * block, block, "reduce_scatter");
  const std::vector<std::size_t> counts(p, block);
  group.reduce_scatter_v(const_buffer(std::span(input)), buffer(std::span(own)), counts);
  expect_same_bits(own.data(), expected.data() + self * block, block, "reduce_scatter_v");
}

/// The same in memory that other ranks may reach in place.
template <typename T>
void expect_left_fold_of_registered(ProcessGroup& group, std::size_t count) {
  const RegisteredBuffer memory = group.allocate(count * sizeof(T));
  const auto input = real_input<T>(group.rank(), count);
  const auto data = memory.as<T>();
  std::copy(input.begin(), input.end(), data.begin());
  group.all_reduce(data);
  expect_same_bits(data.data(), left_fold<T>(group.world_size(), count).data(), count, "registered all_reduce");
}

/// Of all reductions.
std::set<std::string> all_names() {
  std::set<std::string> names;
  for (const OpKind op : {OpKind::AllReduce, OpKind::Reduce, OpKind::ReduceScatter, OpKind::ReduceScatterV})
    for (const std::string_view name : algorithms::names_for(op)) names.emplace(name);
  return names;
}

class Reproducible : public Collectives {
 protected:
  void run(std::size_t segment_bytes, const test::RankBody& body) const {
    RunRanksOptions with = options();
    with.group.reproducible = true;
    with.group.segment_bytes = segment_bytes;
    run_ranks(world(), body, with);
  }
};

TEST_P(Reproducible, EveryReductionIsALeftFoldOverTheRanks) {
  for (const std::size_t segment_bytes : {64, 1000, 4096, 1 << 18}) {
    run(segment_bytes, [](ProcessGroup& group) {
      for (const std::size_t block : {1, 1501}) {
        expect_left_folds<float>(group, block);
        expect_left_folds<double>(group, block);
        expect_left_folds<Half>(group, block);
        expect_left_folds<BFloat16>(group, block);
      }
      std::vector<float> one{static_cast<float>(group.rank())};
      group.all_reduce(std::span<float>(one), ReduceOp::Avg);
      EXPECT_EQ(one[0], static_cast<float>(group.world_size() - 1) / 2);
    });
  }
}

TEST_P(Reproducible, LongVectorsAndRegisteredMemoryToo) {
  run(ProcessGroupOptions{}.segment_bytes, [](ProcessGroup& group) {
    expect_left_folds<float>(group, 70'001);  // several segments a chunk
    expect_left_fold_of_registered<float>(group, 3);
    expect_left_fold_of_registered<float>(group, 200'003);
    expect_left_fold_of_registered<BFloat16>(group, 200'003);
  });
}

TEST_P(Reproducible, WhateverAlgorithmIsNamed) {
  run(4096, [](ProcessGroup& group) {
    for (const std::string& algorithm : all_names()) {
      SCOPED_TRACE(algorithm);
      group.use_algorithm(algorithm);
      expect_left_folds<float>(group, 997);
    }
  });
}

TEST(ReproducibleInput, HasSumsThatDependOnTheirOrder) {
  const std::size_t count = 1501;
  const auto a = real_input<float>(0, count), b = real_input<float>(1, count), c = real_input<float>(2, count);
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) different += a[i] + b[i] + c[i] != a[i] + (b[i] + c[i]) ? 1 : 0;
  EXPECT_GT(different, 0u);
}

// Both are given to operators that keep their order, and only one of them to long vectors.
TEST(Rabenseifner, HasTheBitsOfRecursiveDoubling) {
  for (const int world : {2, 3, 4, 5, 7}) {
    run_ranks(world, [](ProcessGroup& group) {
      const auto input = real_input<float>(group.rank(), 1501);
      auto one = input, other = input;
      group.use_algorithm("recursive_doubling");
      group.all_reduce(std::span<float>(one));
      group.use_algorithm("rabenseifner");
      group.all_reduce(std::span<float>(other));
      expect_same_bits(other.data(), one.data(), one.size(), "rabenseifner");
    });
  }
}

/// All nets and worlds, and several hosts. What is named makes no difference, as WhateverAlgorithmIsNamed checks in
/// each.
std::vector<Case> worlds() {
  std::vector<Case> result = cases();
  std::erase_if(result, [](const Case& c) {
    const bool large = c.world_size > 4 && !test::kFullRun && c.net != Net::Mixed;
    return c.hosts.empty() && (large || !c.algorithm.empty());
  });
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, Reproducible, testing::ValuesIn(worlds()), case_name);

}  // namespace
}  // namespace tutti::comm
