// Tuning files: what is read and refused, what is published, and what is chosen by it.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/hash_store.h>

#include <cstdlib>
#include <filesystem>
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
  try {
    parse_tuning(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "none";
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
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "tutti-tuning-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    set_log_sink([this](LogLevel level, std::string_view line) {
      if (level == LogLevel::Warn) warnings_ += line;
    });
  }
  void TearDown() override {
    ::unsetenv("TUTTI_TUNING");
    set_log_sink({});
    std::filesystem::remove_all(folder_);
  }

  std::shared_ptr<const Tuning> publish(const TuningPlace& here = kHere) {
    publish_tuning(store_, "group", here, test::soon());
    return published_tuning(store_, "group", test::soon());
  }

  std::string use_file(const std::string& text) {
    const std::string path = (folder_ / "tuning.json").string();
    std::ofstream(path) << text;
    ::setenv("TUTTI_TUNING", path.c_str(), 1);
    return path;
  }

  HashStore store_;
  std::filesystem::path folder_;
  std::string warnings_;
};

TEST_F(PublishedTuning, IsNoneWithoutAFile) {
  EXPECT_EQ(publish(), nullptr);
  EXPECT_EQ(warnings_, "");
}

TEST_F(PublishedTuning, IsTheNumberOfProcessorsWithoutAFileWhereRanksOutnumberThem) {
  publish_tuning(store_, "group", kHere, test::soon(), 2);
  const auto shared = published_tuning(store_, "group", test::soon());
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->processors, 2);

  use_file(tuning_text(example()));
  publish_tuning(store_, "group", kHere, test::soon(), 2);
  EXPECT_EQ(published_tuning(store_, "group", test::soon())->processors, 0) << "what was measured knows better";

  store_.set("group/tuning", "processors many", test::soon());
  EXPECT_THROW(published_tuning(store_, "group", test::soon()), Error);
}

TEST_F(PublishedTuning, IsWhatTheFileSays) {
  use_file(tuning_text(example()));
  const auto tuning = publish();
  ASSERT_NE(tuning, nullptr);
  EXPECT_EQ(tuning_text(*tuning), tuning_text(example()));
  EXPECT_EQ(warnings_, "");
}

TEST_F(PublishedTuning, NamesAFileThatItDoesNotUse) {
  const std::string path = use_file("nonsense");
  EXPECT_EQ(publish(), nullptr);
  EXPECT_EQ(warnings_, "tuning file " + path + " is not used: it is not JSON");
  warnings_.clear();

  use_file(tuning_text(example()));
  EXPECT_EQ(publish({"tcp", 8, 2}), nullptr);
  EXPECT_EQ(warnings_,
            "tuning file " + path +
                " is not used: it was measured with 4 ranks on 1 host(s) over tcp, but this group has 8 ranks "
                "on 2 host(s) over tcp; measure again with `tutti tune`");
  warnings_.clear();

  ::setenv("TUTTI_TUNING", (folder_ / "none").c_str(), 1);
  EXPECT_EQ(publish(), nullptr);
  EXPECT_EQ(warnings_, "tuning file " + (folder_ / "none").string() + " is not used: it cannot be read");
  warnings_.clear();

  ::setenv("TUTTI_TUNING", folder_.c_str(), 1);
  EXPECT_EQ(publish(), nullptr);
  EXPECT_EQ(warnings_, "tuning file " + folder_.string() + " is not used: it cannot be read");
}

TEST_F(PublishedTuning, NamesRankZeroIfItPublishesNothing) {
  try {
    published_tuning(store_, "nobody", Deadline::after(std::chrono::milliseconds(10)));
    FAIL() << "something was published";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Timeout);
    EXPECT_EQ(std::string(error.what()).rfind("rank 0 has not said which tuning file it uses: ", 0), 0u)
        << error.what();
  }
}

}  // namespace
}  // namespace tutti::comm
