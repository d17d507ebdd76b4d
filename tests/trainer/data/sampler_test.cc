#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/sampler.h>

#include <algorithm>
#include <fstream>

namespace tutti::trainer {
namespace {

using Indices = std::vector<std::int64_t>;

// One line of golden/samplers.txt: arguments of torch's DistributedSampler, the epoch, its length and its indices.
struct Case {
  SamplerOptions options;
  std::int64_t epoch = 0;
  Indices indices;
};

std::vector<Case> golden_cases() {
  std::ifstream in(TUTTI_DATA_GOLDEN "/samplers.txt");
  std::vector<Case> cases;
  std::size_t length = 0;
  for (Case c; in >> c.options.count >> c.options.replicas >> c.options.rank >> c.options.shuffle >> c.options.seed >>
               c.options.drop_last >> c.epoch >> length;) {
    c.indices.resize(length);
    for (std::int64_t& index : c.indices) {
      in >> index;
    }
    cases.push_back(c);
  }
  return cases;
}

TEST(DistributedSampler, EqualsPyTorchs) {
  const auto cases = golden_cases();
  ASSERT_GT(cases.size(), 100u);
  for (const Case& c : cases) {
    const DistributedSampler sampler(c.options);
    EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(c.indices.size()));
    EXPECT_EQ(sampler.indices(c.epoch), c.indices)
        << c.options.count << " samples, rank " << c.options.rank << " of " << c.options.replicas << ", seed "
        << c.options.seed << ", epoch " << c.epoch << ", drop_last " << c.options.drop_last;
  }
}

TEST(DistributedSampler, EpochAndSeedAddUp) {
  const DistributedSampler first({.count = 100, .seed = 7});
  const DistributedSampler second({.count = 100, .seed = 9});
  EXPECT_EQ(first.indices(5), second.indices(3));
  EXPECT_NE(first.indices(5), first.indices(6));
}

// Step k of all ranks together takes the same samples for every number of ranks: what makes training independent of it.
TEST(DistributedSampler, TheGlobalBatchDoesNotDependOnTheWorldSize) {
  const Indices whole = DistributedSampler({.count = 96, .seed = 3}).indices(2);
  for (const int ranks : {2, 3, 4, 8}) {
    const std::int64_t per_rank = 24 / ranks;
    for (std::int64_t step = 0; step < 4; ++step) {
      Indices together;
      for (int rank = 0; rank < ranks; ++rank) {
        const Indices mine = DistributedSampler({.count = 96, .replicas = ranks, .rank = rank, .seed = 3}).indices(2);
        together.insert(together.end(), mine.begin() + step * per_rank, mine.begin() + (step + 1) * per_rank);
      }
      Indices expected(whole.begin() + step * 24, whole.begin() + (step + 1) * 24);
      std::sort(together.begin(), together.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(together, expected) << ranks << " ranks, step " << step;
    }
  }
}

// Ranks that a step's samples do not divide evenly: each step takes the same samples as with 4 ranks of 8.
TEST(DistributedSampler, AGlobalBatchIsDealtToAnyNumberOfRanks) {
  constexpr std::int64_t kBatch = 32;
  SamplerOptions of_four{.count = 101, .replicas = 4, .seed = 3};
  const std::int64_t total = DistributedSampler(of_four).total();
  for (const int ranks : {1, 3, 4, 5, 7, 40}) {
    std::vector<Indices> dealt(static_cast<std::size_t>(ranks));
    SamplerOptions options{.count = 101, .replicas = ranks, .seed = 3, .global_batch = kBatch, .padded_for = 4};
    for (int rank = 0; rank < ranks; ++rank) {
      options.rank = rank;
      const DistributedSampler sampler(options);
      ASSERT_EQ(sampler.total(), total);
      dealt[static_cast<std::size_t>(rank)] = sampler.indices(2);
      ASSERT_EQ(sampler.size(), static_cast<std::int64_t>(dealt[static_cast<std::size_t>(rank)].size()));
    }
    for (std::int64_t position = 0; position < total; ++position) {
      const std::int64_t in_step = position % kBatch;
      const auto rank = static_cast<std::size_t>(in_step % ranks);
      const std::int64_t share = (kBatch - static_cast<std::int64_t>(rank) + ranks - 1) / ranks;
      const std::int64_t place = position / kBatch * share + in_step / ranks;
      of_four.rank = static_cast<int>(position % 4);
      EXPECT_EQ(dealt[rank].at(static_cast<std::size_t>(place)),
                DistributedSampler(of_four).indices(2).at(static_cast<std::size_t>(position / 4)));
    }
    EXPECT_EQ(DistributedSampler(options).samples_of_step(3, 8), total - 3 * kBatch);
  }
}

TEST(DistributedSampler, AnEmptySetGivesNothing) {
  EXPECT_TRUE(DistributedSampler({.count = 0, .replicas = 3, .rank = 1}).indices(0).empty());
}

TEST(EvaluationSampler, CoversEverySampleOnceInOrder) {
  for (const std::int64_t count : {0, 1, 2, 7, 10, 10000}) {
    for (const int ranks : {1, 2, 3, 4, 7, 16}) {
      Indices all;
      for (int rank = 0; rank < ranks; ++rank) {
        const EvaluationSampler sampler(count, ranks, rank);
        const Indices mine = sampler.indices(0);
        EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(mine.size()));
        EXPECT_LE(std::abs(sampler.size() - count / ranks), 1);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      Indices expected(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = static_cast<std::int64_t>(i);
      }
      EXPECT_EQ(all, expected) << count << " samples, " << ranks << " ranks";
    }
  }
}

TEST(Sampler, ErrorsNameTheField) {
  EXPECT_EQ(error_of([] { DistributedSampler({.count = -1}); }), "sampler: count is -1, expected 0 or more samples");
  EXPECT_EQ(error_of([] { DistributedSampler({.count = 5, .replicas = 0}); }),
            "sampler: replicas is 0, expected 1 or more");
  EXPECT_EQ(error_of([] { DistributedSampler({.count = 5, .replicas = 2, .rank = 2}); }),
            "sampler: rank is 2, expected 0 to 1");
  EXPECT_EQ(error_of([] { EvaluationSampler(5, 2, -1); }), "sampler: rank is -1, expected 0 to 1");
  EXPECT_EQ(error_of([] { DistributedSampler({.count = 5}).indices(-1); }), "sampler: epoch is -1, expected 0 or more");
}

}  // namespace
}  // namespace tutti::trainer
