// reduce_scatter, all_to_all, the v-forms, sendrecv and the typed shorthands, over the grid of process_group_test.cc.
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

TEST_P(BlockCollectives, ReduceScatterLeavesInputsAlone) {
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

/// What rank `from` sends to rank `to`.
std::vector<std::int32_t> block_between(int from, int to, std::size_t count) {
  return input_of<std::int32_t>(100 * from + to, count);
}

TEST_P(BlockCollectives, AllToAllTransposesBlocks) {
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

TEST_P(BlockCollectives, ReduceScatterAndAllToAllAsynchronously) {
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

/// Rank r's part of a whole whose element i is element<T>(0, i).
template <typename T>
std::vector<T> part_of(const std::vector<T>& whole, const std::vector<std::size_t>& counts, int rank) {
  const auto first = std::accumulate(counts.begin(), counts.begin() + rank, std::ptrdiff_t{0});
  const auto count = static_cast<std::ptrdiff_t>(counts[static_cast<std::size_t>(rank)]);
  return {whole.begin() + first, whole.begin() + first + count};
}

void expect_v_forms(ProcessGroup& group, const std::vector<std::size_t>& counts) {
  const auto whole = input_of<std::uint16_t>(0, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  const auto block = part_of(whole, counts, group.rank());
  std::vector<std::uint16_t> all(whole.size());
  group.all_gather_v(const_buffer(std::span(block)), buffer(std::span(all)), counts);
  ASSERT_EQ(all, whole);
  for (int root = 0; root < group.world_size(); ++root) {
    const bool is_root = group.rank() == root;
    std::vector<std::uint16_t> gathered(is_root ? whole.size() : 0), mine(block.size());
    group.gather_v(const_buffer(std::span(block)), buffer(std::span(gathered)), counts, root);
    if (is_root) {
      ASSERT_EQ(gathered, whole) << "root " << root;
    }
    const std::span<const std::uint16_t> source(whole.data(), is_root ? whole.size() : 0);
    Work work = group.scatter_v_async(const_buffer(source), buffer(std::span(mine)), counts, root);
    work.wait();
    ASSERT_EQ(mine, block) << "root " << root;
  }
}

TEST_P(BlockCollectives, VFormsWithAllKindsOfCounts) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        const auto p = static_cast<std::size_t>(world());
        std::vector<std::size_t> counts(p, 0);
        expect_v_forms(group, counts);
        for (std::size_t rank = 0; rank < p; ++rank) counts[rank] = rank * 700 % 3001;  // rank 0 has nothing
        expect_v_forms(group, counts);
        std::reverse(counts.begin(), counts.end());  // the same total
        expect_v_forms(group, counts);
        counts.assign(p, 0);
        counts[p / 2] = 20'011;
        expect_v_forms(group, counts);
      },
      options());
}

template <typename T>
void expect_reduce_scatter_v(ProcessGroup& group, ReduceOp op, const std::vector<std::size_t>& counts) {
  const auto whole = input_of<T>(group.rank(), std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  const auto before = whole;
  std::vector<T> expected(whole.size()), block(counts[static_cast<std::size_t>(group.rank())]), again(block.size());
  for (std::size_t i = 0; i < whole.size(); ++i) expected[i] = reduced<T>(op, group.world_size(), i);
  group.reduce_scatter_v(const_buffer(std::span(whole)), buffer(std::span(block)), counts, op);
  ASSERT_EQ(block, part_of(expected, counts, group.rank())) << name(op) << " " << name(DTypeOf<T>::value);
  Work work = group.reduce_scatter_v_async(const_buffer(std::span(whole)), buffer(std::span(again)), counts, op);
  work.wait();
  ASSERT_EQ(again, block);
  ASSERT_EQ(whole, before);
}

TEST_P(BlockCollectives, ReduceScatterVWithAllKindsOfCounts) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        const auto p = static_cast<std::size_t>(world());
        std::vector<std::size_t> counts(p, 0);
        expect_reduce_scatter_v<float>(group, ReduceOp::Sum, counts);
        for (std::size_t rank = 0; rank < p; ++rank) counts[rank] = rank * 700 % 3001;
        expect_reduce_scatter_v<float>(group, ReduceOp::Sum, counts);
        expect_reduce_scatter_v<std::uint16_t>(group, ReduceOp::Max, counts);
        expect_reduce_scatter_v<double>(group, ReduceOp::Avg, counts);
        counts.assign(p, 0);
        counts[p / 2] = 20'011;
        expect_reduce_scatter_v<std::int64_t>(group, ReduceOp::Prod, counts);
        counts.assign(p, 40'000);  // long enough for the ring
        counts[0] = 39'999;
        expect_reduce_scatter_v<float>(group, ReduceOp::Sum, counts);
      },
      options());
}

/// Elements from rank `from` to rank `to`: none, some, many.
std::size_t count_between(int from, int to, int salt) {
  const auto mixed = static_cast<std::size_t>(7 * from + 3 * to + salt);
  return mixed % 4 == 0 ? 0 : mixed % 4 == 1 ? 3001 : mixed % 11;
}

TEST_P(BlockCollectives, AllToAllVWithAllKindsOfCounts) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const int salt : {0, 1, 2, 3}) {
          std::vector<std::int32_t> input, expected;
          std::vector<std::size_t> send_counts, recv_counts;
          for (int peer = 0; peer < world(); ++peer) {
            send_counts.push_back(count_between(group.rank(), peer, salt));
            recv_counts.push_back(count_between(peer, group.rank(), salt));
            const auto sent = block_between(group.rank(), peer, send_counts.back());
            const auto received = block_between(peer, group.rank(), recv_counts.back());
            input.insert(input.end(), sent.begin(), sent.end());
            expected.insert(expected.end(), received.begin(), received.end());
          }
          std::vector<std::int32_t> output(expected.size()), again(expected.size());
          group.all_to_all_v(const_buffer(std::span(input)), send_counts, buffer(std::span(output)), recv_counts);
          ASSERT_EQ(output, expected) << "salt " << salt;
          Work work = group.all_to_all_v_async(const_buffer(std::span(input)), send_counts, buffer(std::span(again)),
                                               recv_counts);
          work.wait();
          ASSERT_EQ(again, expected) << "salt " << salt;
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
