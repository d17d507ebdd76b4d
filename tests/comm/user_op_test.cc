// Reductions by the caller's operators: order of operands, agreement between ranks, and what happens when they throw.
#include <gtest/gtest.h>
#include <tutti/tests/comm/collectives_fixture.h>

#include <stdexcept>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using test::run_ranks_to_failure;

/// x -> a x + b (mod 2^32), packed. Applying one map after another is associative, and not commutative.
std::uint64_t then(std::uint64_t first, std::uint64_t second) {
  const std::uint64_t a1 = first >> 32, b1 = first & 0xffffffff, a2 = second >> 32, b2 = second & 0xffffffff;
  return ((a1 * a2 & 0xffffffff) << 32) | ((b1 * a2 + b2) & 0xffffffff);
}

template <typename T, typename F>
UserOp operator_of(const char* name, F combine, bool commutative = true) {
  return {.name = name,
          .combine =
              [combine](void* target, const void* incoming, std::size_t count, DType dtype) {
                ASSERT_EQ(dtype, DTypeOf<T>::value);
                auto* left = static_cast<T*>(target);
                const auto* right = static_cast<const T*>(incoming);
                for (std::size_t i = 0; i < count; ++i) left[i] = combine(left[i], right[i]);
              },
          .commutative = commutative};
}

Reduction composition() { return operator_of<std::uint64_t>("then", then, false); }

std::vector<std::uint64_t> maps_of(int rank, std::size_t count) {
  std::vector<std::uint64_t> maps(count);
  for (std::size_t i = 0; i < count; ++i)
    maps[i] =
        ((2 * (i + static_cast<std::size_t>(rank)) + 3) << 32) | (31 * i + 7 * static_cast<std::size_t>(rank) + 1);
  return maps;
}

std::vector<std::uint64_t> composed(int world, std::size_t count) {
  auto all = maps_of(0, count);
  for (int rank = 1; rank < world; ++rank) {
    const auto next = maps_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) all[i] = then(all[i], next[i]);
  }
  return all;
}

class UserOperators : public Collectives {};

TEST_P(UserOperators, CommutativeOnesGiveWhatTheBuiltInGives) {
  run([&](ProcessGroup& group) {
    const Reduction longest = operator_of<std::int32_t>("longest", [](auto a, auto b) { return std::max(a, b); });
    for (const std::size_t count : counts()) {
      auto data = input_of<std::int32_t>(group.rank(), count);
      group.all_reduce(std::span<std::int32_t>(data), longest);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], reduced<std::int32_t>(ReduceOp::Max, world(), i));
    }
    std::vector<std::int32_t> blocks = input_of<std::int32_t>(group.rank(), 501 * static_cast<std::size_t>(world()));
    std::vector<std::int32_t> own(501);
    group.reduce_scatter(std::span<std::int32_t>(blocks), std::span<std::int32_t>(own), longest);
    for (std::size_t i = 0; i < own.size(); ++i)
      ASSERT_EQ(own[i],
                reduced<std::int32_t>(ReduceOp::Max, world(), i + own.size() * static_cast<std::size_t>(group.rank())));
  });
}

TEST_P(UserOperators, OthersAreAppliedInTheOrderOfRanksWhateverTheAlgorithm) {
  run([&](ProcessGroup& group) {
    const auto p = static_cast<std::size_t>(world()), self = static_cast<std::size_t>(group.rank());
    for (const std::size_t count : counts()) {
      auto data = maps_of(group.rank(), count);
      group.all_reduce(std::span<std::uint64_t>(data), composition());
      ASSERT_EQ(data, composed(world(), count)) << "count " << count;
    }
    for (int root = 0; root < world(); ++root) {
      const auto input = maps_of(group.rank(), 1025);
      std::vector<std::uint64_t> output(group.rank() == root ? input.size() : 0);
      group.reduce(std::span(input), std::span(output), composition(), root);
      if (group.rank() == root) {
        ASSERT_EQ(output, composed(world(), 1025)) << "root " << root;
      }
    }
    const auto input = maps_of(group.rank(), 1025 * p);
    const auto all = composed(world(), 1025 * p);
    std::vector<std::uint64_t> own(1025);
    group.reduce_scatter_async(const_buffer(std::span(input)), buffer(std::span(own)), composition()).wait();
    EXPECT_TRUE(std::equal(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(1025 * self)));
    std::vector<std::size_t> counts(p, 1025);
    group.reduce_scatter_v(const_buffer(std::span(input)), buffer(std::span(own)), counts, composition());
    EXPECT_TRUE(std::equal(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(1025 * self)));
  });
}

INSTANTIATE_TEST_SUITE_P(All, UserOperators, testing::ValuesIn(cases()), case_name);

TEST(UserOperator, LongVectorsStayInOrder) {
  run_ranks(Net::Tcp, 3, [](ProcessGroup& group) {
    auto data = maps_of(group.rank(), 300'000);
    group.all_reduce(std::span<std::uint64_t>(data), composition());
    EXPECT_EQ(data, composed(3, data.size()));
  });
}

std::vector<std::string> outcomes_of(const test::RankBody& body) {
  std::vector<std::string> texts;
  for (const auto& outcome : run_ranks_to_failure(3, body)) texts.push_back(outcome ? outcome->what() : "");
  return texts;
}

void expect_all_contain(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts) test::expect_parts(text, {part});
}

TEST(UserOperator, AnotherNameOrKindOnAnotherRankIsAMismatch) {
  const auto minimum = [](int a, int b) { return std::min(a, b); };
  for (const bool other_kind : {false, true}) {
    const auto texts = outcomes_of([&](ProcessGroup& group) {
      std::vector<int> data(10);
      const bool differs = group.rank() == 1;
      group.all_reduce(std::span<int>(data),
                       operator_of<int>(differs && !other_kind ? "beta" : "alpha", minimum, !(differs && other_kind)));
    });
    expect_all_contain(texts, "all_reduce seq 1 (user operator ");
    expect_all_contain(texts, "called");
  }
  const auto texts = outcomes_of([&](ProcessGroup& group) {
    std::vector<int> data(10);
    group.all_reduce(std::span<int>(data),
                     group.rank() == 0 ? Reduction(ReduceOp::Min) : Reduction(operator_of<int>("alpha", minimum)));
  });
  expect_all_contain(texts, "min int32 x 10");
  expect_all_contain(texts, "user operator ");
}

TEST(UserOperator, WhatItThrowsFailsTheGroupOnAllRanksNamingTheRank) {
  const auto fails_on = [](int rank, auto exception) {
    return outcomes_of([=](ProcessGroup& group) {
      const bool fails = group.rank() == rank;
      std::vector<int> data(10);
      group.all_reduce(std::span<int>(data), operator_of<int>("picky", [=](int a, int b) {
                         if (fails) throw exception;
                         return a + b;
                       }));
      group.barrier();  // a rank may be done before another's operator is called
    });
  };
  auto texts = fails_on(1, std::runtime_error("negative weight"));
  expect_all_contain(texts, "rank 1/3: all_reduce seq 1 (user operator ");
  expect_all_contain(texts, "with operator 'picky': the operator 'picky' threw: negative weight");
  texts = fails_on(2, 42);
  expect_all_contain(texts, "rank 2/3: all_reduce seq 1");
  expect_all_contain(texts, "the operator 'picky' threw something that is no std::exception");
}

TEST(UserOperator, NeedsANameAndAFunction) {
  constexpr auto kWrong = ErrorCode::InvalidArgument;
  EXPECT_EQ(test::text_of(kWrong, [] { Reduction(operator_of<int>("", [](int a, int) { return a; })); }),
            "a UserOp needs a name, by which ranks compare it");
  EXPECT_EQ(test::text_of(kWrong, [] { Reduction(UserOp{.name = "empty", .combine = {}}); }),
            "the UserOp 'empty' has no function to combine with");
  run_ranks(1, [&](ProcessGroup& group) {
    std::vector<int> data(1);
    EXPECT_EQ(test::text_of(kWrong, [&] { group.all_reduce(std::span<int>(data), ReduceOp::User); }),
              "rank 0/1: all_reduce: user of int32 has no function; pass a UserOp (reduction.h)");
  });
}

}  // namespace
}  // namespace tutti::comm
