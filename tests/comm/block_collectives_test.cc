// In place, sendrecv, the typed shorthands and refused counts, over the grid of process_group_test.cc.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/collectives_fixture.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

namespace tutti::comm {
namespace {

class BlockCollectives : public Collectives {};

TEST_P(BlockCollectives, ReduceScatterInPlaceChangesOnlyTheOwnBlock) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : counts()) {
          const std::size_t first = static_cast<std::size_t>(group.rank()) * count;
          auto expected = input_of<float>(group.rank(), static_cast<std::size_t>(world()) * count);
          auto data = expected;
          for (std::size_t i = first; i < first + count; ++i) expected[i] = reduced<float>(ReduceOp::Sum, world(), i);
          group.reduce_scatter(std::span(data), std::span(data).subspan(first, count));
          ASSERT_EQ(data, expected) << "count " << count;
        }
      },
      options());
}

TEST_P(BlockCollectives, AllGatherInPlaceFillsTheOthersBlocks) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : counts()) {
          std::vector<float> expected;
          for (int rank = 0; rank < world(); ++rank)
            std::ranges::copy(input_of<float>(rank, count), std::back_inserter(expected));
          std::vector<float> data(expected.size());
          const auto own = std::span(data).subspan(static_cast<std::size_t>(group.rank()) * count, count);
          for (int round = 0; round < 2; ++round) {  // what the first one has left is no longer zero
            std::ranges::copy(input_of<float>(group.rank(), count), own.begin());
            group.all_gather_async(const_buffer(own), buffer(std::span(data))).wait();
            ASSERT_EQ(data, expected) << "count " << count;
          }
        }
      },
      options());
}

TEST(AllToAllV, RefusesCountsThatCannotBeRight) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto refusal = [&](std::size_t elements, std::vector<std::size_t> send, std::vector<std::size_t> recv) {
      std::vector<float> input(elements), output(elements);
      try {
        group.all_to_all_v(const_buffer(std::span(input)), send, buffer(std::span(output)), recv);
      } catch (const Error& error) {
        return std::string(error.code() == ErrorCode::InvalidArgument ? "" : "another code: ") + error.what();
      }
      return std::string("no error");
    };
    const auto self = static_cast<std::size_t>(group.rank());
    const std::string prefix = "rank " + std::to_string(group.rank()) + "/2: all_to_all_v: ";
    EXPECT_EQ(refusal(3, {3}, {1, 2}), prefix + "there are 1 counts, but 2 are needed, one for each rank");
    EXPECT_EQ(refusal(3, {1, 2}, {3}), prefix + "there are 1 counts, but 2 are needed, one for each rank");
    EXPECT_EQ(refusal(3, {1, 1}, {1, 2}), prefix + "input holds 3 elements, but 2 are needed");
    EXPECT_EQ(refusal(3, {1, 2}, {1, 1}), prefix + "output holds 3 elements, but 2 are needed");
    std::vector<std::size_t> send{1, 1}, recv{1, 1};
    ++send[self];
    ++recv[1 - self];
    EXPECT_EQ(refusal(3, send, recv), prefix + "this rank would send 2 elements to itself, but receive 1");
    group.barrier();
  });
}

TEST_P(BlockCollectives, TypedShorthandsCallTheSame) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        const auto p = static_cast<std::size_t>(world());
        const auto input = input_of<float>(group.rank(), 3);
        const auto blocks = input_of<float>(group.rank(), 3 * p);
        const bool is_root = group.rank() == 0;
        std::vector<float> sums(is_root ? 3 : 0), gathered(is_root ? 3 * p : 0), all(3 * p), mine(3), there(3 * p);
        group.reduce(std::span(input), std::span(sums), ReduceOp::Max, 0);
        group.gather(std::span(input), std::span(gathered), 0);
        group.all_gather(std::span(input), std::span(all));
        group.scatter(std::span(gathered), std::span(mine), 0);
        EXPECT_EQ(mine, input);
        for (std::size_t i = 0; i < 3 * p; ++i) EXPECT_EQ(all[i], element<float>(static_cast<int>(i / 3), i % 3));
        for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], reduced<float>(ReduceOp::Max, world(), i));
        group.reduce_scatter(std::span(blocks), std::span(mine));
        const std::size_t first = 3 * static_cast<std::size_t>(group.rank());
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(mine[i], reduced<float>(ReduceOp::Sum, world(), first + i));
        group.all_to_all(std::span(blocks), std::span(there));
        for (std::size_t i = 0; i < 3 * p; ++i)
          EXPECT_EQ(there[i], element<float>(static_cast<int>(i / 3), first + i % 3));
      },
      options());
}

TEST_P(BlockCollectives, SendrecvAroundARingBothWays) {
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

INSTANTIATE_TEST_SUITE_P(All, BlockCollectives, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace tutti::comm
