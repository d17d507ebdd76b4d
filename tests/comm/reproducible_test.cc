// Reproducible reductions: the bits of a sum of real numbers, element by element in the order of the ranks.
#include <gtest/gtest.h>
#include <tutti/tests/comm/collectives_fixture.h>

#include <cmath>
#include <cstring>
#include <random>

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

template <typename T>
std::vector<T> left_fold(int world, std::size_t count) {
  auto sum = real_input<T>(0, count);
  for (int rank = 1; rank < world; ++rank) {
    const auto next = real_input<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] = T(static_cast<float>(sum[i]) + static_cast<float>(next[i]));
  }
  return sum;
}

template <typename T>
void expect_same_bits(const T* found, const T* expected, std::size_t count, const char* what) {
  if (count == 0) return;
  EXPECT_EQ(std::memcmp(found, expected, count * sizeof(T)), 0) << what << " " << name(DTypeOf<T>::value);
}

template <typename T>
void expect_left_folds(ProcessGroup& group) {
  const auto p = static_cast<std::size_t>(group.world_size()), self = static_cast<std::size_t>(group.rank());
  const std::size_t block = 1501, count = p * block;
  const auto input = real_input<T>(group.rank(), count);
  const auto expected = left_fold<T>(group.world_size(), count);
  auto data = input;
  group.all_reduce(std::span<T>(data));
  expect_same_bits(data.data(), expected.data(), count, "all_reduce");
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

class Reproducible : public Collectives {};

TEST_P(Reproducible, EveryReductionIsALeftFoldOverTheRanks) {
  for (const std::size_t segment_bytes : {256, 1 << 20}) {
    auto with = options();
    with.group.reproducible = true;
    with.group.segment_bytes = segment_bytes;
    run_ranks(
        world(),
        [](ProcessGroup& group) {
          expect_left_folds<float>(group);
          expect_left_folds<Half>(group);
          expect_left_folds<BFloat16>(group);
          std::vector<float> one{static_cast<float>(group.rank())};
          group.all_reduce(std::span<float>(one), ReduceOp::Avg);
          EXPECT_EQ(one[0], static_cast<float>(group.world_size() - 1) / 2);
        },
        with);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reproducible, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace tutti::comm
