// Ranks whose CPUs share no last cache: what is long goes past the caches, and arrives whole.
#include <gtest/gtest.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/run_ranks.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {
namespace {

using tutti::test::Net;
using tutti::test::run_ranks;

using Values = std::vector<float>;

/// A rank's contribution; sums of a few are exact.
Values values_of(int rank, int round, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(1'000 * rank + 7 * round) + static_cast<float>(i % 97);
  return values;
}

void exchange(ProcessGroup& group, std::size_t count, int round) {
  SCOPED_TRACE(std::to_string(count) + " elements, round " + std::to_string(round));
  const int ranks = group.world_size(), rank = group.rank(), root = round % ranks;
  const Values own = values_of(rank, round, count);
  Values whole, total(count, 0.0f), got = own;
  for (int other = 0; other < ranks; ++other) {
    const Values block = values_of(other, round, count);
    whole.insert(whole.end(), block.begin(), block.end());
    for (std::size_t i = 0; i < count; ++i) total[i] += block[i];
  }
  group.all_reduce(std::span(got));
  EXPECT_EQ(got, total);
  got = own;
  group.broadcast(std::span(got), root);
  EXPECT_EQ(got, values_of(root, round, count));
  Values all(whole.size());
  group.all_gather(std::span(own), std::span(all));
  EXPECT_EQ(all, whole);
  group.reduce_scatter(std::span(std::as_const(whole)), std::span(got));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], static_cast<float>(ranks) * own[i]) << i;
  const int before = (rank + ranks - 1) % ranks;
  group.sendrecv(const_buffer(std::span(own)), (rank + 1) % ranks, buffer(std::span(got)), before);
  EXPECT_EQ(got, values_of(before, round, count));
}

/// Lengths that go through slots, one chunk, and many with a rest.
TEST(FarRanks, GetAllThatIsSent) {
  for (const int ranks : {2, 3}) {
    const auto body = [&](ProcessGroup& group) {
      for (int round = 0; round < 3; ++round)
        for (const std::size_t count : {1'001, 7'003, 50'021, 300'007}) exchange(group, count, round);
    };
    run_ranks(Net::FarShm, ranks, body);
  }
}

TEST(LastCache, IsThatOfACpuOfThisProcess) {
  const int cache = last_cache_of_process();
  EXPECT_GE(cache, kUnknownCache);
  EXPECT_EQ(last_cache_of_process(), cache);
}

}  // namespace
}  // namespace tutti::comm
