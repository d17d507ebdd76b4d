// Tuning files: what is read and refused, what is published, and what is chosen by it.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/hash_store.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using algorithms::choose;
using algorithms::select;

const TuningPlace kHere{"tcp", 4, 1};

Tuning example() {
  Tuning tuning;
  tuning.host = "a";
  tuning.date = "2026-01-02T03:04:05Z";
  tuning.place = kHere;
  tuning.model.alpha = tuning.model.local_alpha = 20e-6;
  tuning.model.beta = tuning.model.local_beta = 1e-9;
  tuning.model.gamma = 0.25e-9;
  tuning.rows = {{OpKind::AllReduce, "ring", 1024, 100e-6},
                 {OpKind::AllReduce, "double_tree", 1024, 50e-6},
                 {OpKind::AllReduce, "ring", 1 << 20, 1000e-6},
                 {OpKind::AllReduce, "double_tree", 1 << 20, 4000e-6}};
  return tuning;
}

std::string refusal_of(const std::string& text) {
  return test::text_of(ErrorCode::InvalidArgument, [&] { parse_tuning(text); });
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = tuning_text(example());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Tuning, ComesBackFromItsText) {
  const Tuning back = parse_tuning(tuning_text(example()));
  EXPECT_EQ(tuning_text(back), tuning_text(example()));
  EXPECT_EQ(back.place, kHere);
  EXPECT_EQ(back.date, "2026-01-02T03:04:05Z");
  ASSERT_EQ(back.rows.size(), 4u);
  EXPECT_NEAR(back.model.alpha, 20e-6, 1e-12);
  EXPECT_NEAR(back.model.beta, 1e-9, 1e-15);
  EXPECT_NEAR(back.model.gamma, 0.25e-9, 1e-15);
}

TEST(Tuning, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(refusal_of(""), "it is not JSON");
  EXPECT_EQ(refusal_of(tuning_text(example()).substr(0, 200)), "it is not JSON");
  EXPECT_EQ(refusal_of("[]"), "key \"tutti_tuning\" is missing");
  EXPECT_EQ(refusal_of(with("\"tutti_tuning\": 3", "\"tutti_tuning\": 2")),
            "it has version 2, this program reads version 3; measure again with `tutti tune`");
  EXPECT_EQ(refusal_of(with("\"world_size\": 4", "\"world_size\": 4.5")), "\"world_size\" is 4.5");
  EXPECT_EQ(refusal_of(with("\"world_size\": 4", "\"world\": 4")), "key \"world_size\" is missing");
  EXPECT_EQ(refusal_of(with("\"transport\": \"tcp\"", "\"transport\": 7")), "\"transport\" is no text but 7");
  EXPECT_EQ(refusal_of(with("\"alpha_us\": ", "\"alpha_us\": -")).substr(0, 14), "\"alpha_us\" is ");
  EXPECT_EQ(refusal_of(with("\"gamma_ns\"", "\"gama_ns\"")), "key \"gamma_ns\" is missing");
  EXPECT_EQ(refusal_of(with("\"algorithm\": \"ring\"", "\"algorithm\": \"chain\"")),
            "there is no algorithm \"chain\" for all_reduce");
  EXPECT_EQ(refusal_of(with("\"op\": \"all_reduce\"", "\"op\": \"all\"")), "there is no operation \"all\"");
  EXPECT_EQ(refusal_of(with("\"bytes\": 1048576", "\"bytes\": 1e300")), "\"bytes\" is 1e+300");
}

TEST(Tuning, TimesLieOnLinesBetweenTheSizesAndGrowBeyondThem) {
  const Tuning tuning = example();
  EXPECT_NEAR(*tuning.seconds(OpKind::AllReduce, "ring", 10), 100e-6, 1e-12);
  EXPECT_NEAR(*tuning.seconds(OpKind::AllReduce, "ring", 1024), 100e-6, 1e-12);
  EXPECT_NEAR(*tuning.seconds(OpKind::AllReduce, "ring", (1024 + (1 << 20)) / 2.0), 550e-6, 1e-12);
  EXPECT_NEAR(*tuning.seconds(OpKind::AllReduce, "ring", 4 << 20), 4000e-6, 1e-12);
  EXPECT_FALSE(tuning.seconds(OpKind::AllReduce, "rabenseifner", 10).has_value());
  EXPECT_FALSE(tuning.seconds(OpKind::Broadcast, "ring", 10).has_value());
}

TEST(Tuning, MeasuredAlgorithmsAreChosenByTheirTimes) {
  const Tuning tuning = example();
  EXPECT_EQ(choose(Problem{OpKind::AllReduce, 0, 4, 16}, 4, &tuning), "double_tree");
  EXPECT_EQ(choose(Problem{OpKind::AllReduce, 0, 4, 1 << 20}, 4, &tuning), "ring");
  EXPECT_EQ(select({OpKind::AllReduce, 0, 4, 16}, 4, "", &tuning).algorithm, "double_tree");
  EXPECT_EQ(select({OpKind::AllReduce, 0, 4, 16}, 4, "ring", &tuning).algorithm, "ring") << "a name is above all";
}

TEST(Tuning, WhatWasNotMeasuredIsChosenByItsModel) {
  Tuning tuning = example();
  const Problem broadcast{OpKind::Broadcast, 0, 4, 1 << 20, 0, 1 << 14};
  tuning.model.alpha = tuning.model.local_alpha = 1;  // one message less is worth everything
  EXPECT_EQ(choose(broadcast, 4, &tuning), "binomial");
  tuning.model.alpha = tuning.model.local_alpha = 0;
  EXPECT_NE(choose(broadcast, 4, &tuning), "binomial");
}

TEST(Tuning, MeasuredAlgorithmsThatDoNotFitAreLeftOut) {
  Tuning tuning = example();
  tuning.rows = {{OpKind::ReduceScatter, "bruck", 1024, 1e-6}};
  Problem problem{OpKind::ReduceScatter, 0, 4, 1 << 20};
  EXPECT_EQ(choose(problem, 4, &tuning), "bruck");
  problem.in_order = true;
  EXPECT_EQ(choose(problem, 4, &tuning), "direct");
}

// --- From the file to the ranks

class PublishedTuning : public testing::Test {
 protected:
  ~PublishedTuning() override { ::unsetenv("TUTTI_TUNING"); }

  std::shared_ptr<const Tuning> publish(const TuningPlace& here = kHere, int processors = 0) {
    publish_tuning(store_, "group", here, test::soon(), processors);
    return published_tuning(store_, "group", test::soon());
  }

  static void use(const std::string& path) { ::setenv("TUTTI_TUNING", path.c_str(), 1); }
  std::string use_file(const std::string& text) {
    const std::string path = folder_.file("tuning.json");
    std::ofstream(path) << text;
    use(path);
    return path;
  }

  /// What is warned of when nothing is published, as the file at `path` is not used.
  void expect_unused(const std::string& path, const std::string& why, const TuningPlace& here = kHere) {
    test::CapturedLog log;
    EXPECT_EQ(publish(here), nullptr);
    EXPECT_EQ(log.lines(), "tuning file " + path + " is not used: " + why + "\n");
  }

  HashStore store_;
  test::TemporaryFolder folder_;
};

TEST_F(PublishedTuning, IsNoneWithoutAFile) {
  test::CapturedLog log;
  EXPECT_EQ(publish(), nullptr);
  EXPECT_EQ(log.lines(), "");
}

TEST_F(PublishedTuning, IsTheNumberOfProcessorsWithoutAFileWhereRanksOutnumberThem) {
  const auto shared = publish(kHere, 2);
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->processors, 2);

  use_file(tuning_text(example()));
  EXPECT_EQ(publish(kHere, 2)->processors, 0) << "what was measured knows better";

  store_.set("group/tuning", "processors many", test::soon());
  EXPECT_THROW(published_tuning(store_, "group", test::soon()), Error);
}

TEST_F(PublishedTuning, IsWhatTheFileSays) {
  test::CapturedLog log;
  use_file(tuning_text(example()));
  const auto tuning = publish();
  ASSERT_NE(tuning, nullptr);
  EXPECT_EQ(tuning_text(*tuning), tuning_text(example()));
  EXPECT_EQ(log.lines(), "");
}

TEST_F(PublishedTuning, NamesAFileThatItDoesNotUse) {
  expect_unused(use_file("nonsense"), "it is not JSON");
  expect_unused(use_file(tuning_text(example())),
                "it was measured with 4 ranks on 1 host(s) over tcp, but this group has 8 ranks on 2 host(s) over tcp; "
                "measure again with `tutti tune`",
                {"tcp", 8, 2});
  for (const std::string& path : {folder_.file("none"), folder_.path()}) {
    use(path);
    expect_unused(path, "it cannot be read");
  }
}

TEST_F(PublishedTuning, NamesRankZeroIfItPublishesNothing) {
  const auto ask = [&] { published_tuning(store_, "nobody", test::in_ms(10)); };
  test::expect_match(test::text_of(ErrorCode::Timeout, ask), "^rank 0 has not said which tuning file it uses: ");
}

}  // namespace
}  // namespace tutti::comm
