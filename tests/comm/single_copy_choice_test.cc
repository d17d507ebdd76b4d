// When long operations are read where the other rank has them: the choice, and the variable that makes it.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/single_copy.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace tutti::comm {
namespace {

using namespace std::chrono_literals;

constexpr const char* kVariable = "TUTTI_SINGLE_COPY";
constexpr std::size_t kLong = 1 << 20;

/// The ways of the next `count` operations, each of which takes as long as time(way) says.
template <typename Time>
int singles_of(SingleCopyChoice& choice, int count, std::size_t bytes, Time time) {
  int singles = 0;
  for (int i = 0; i < count; ++i) {
    const bool single = choice.choose(bytes);
    choice.took(bytes, single, time(single));
    singles += single ? 1 : 0;
  }
  return singles;
}

constexpr int kTrial = 2 * SingleCopyChoice::kTried;
constexpr int kTried = SingleCopyChoice::kTried;
constexpr int kKept = SingleCopyChoice::kKept;

TEST(SingleCopyChoice, KeepsTheQuickerWayAfterATrialOfBoth) {
  SingleCopyChoice choice(SingleCopy::Auto);
  const auto single_is_quicker = [](bool single) { return single ? 50us : 90us; };
  EXPECT_EQ(singles_of(choice, kTrial, kLong, single_is_quicker), kTried);
  EXPECT_EQ(singles_of(choice, kKept, kLong, single_is_quicker), kKept);
  const auto single_is_slower = [](bool single) { return single ? 200us : 90us; };
  EXPECT_EQ(singles_of(choice, kTrial, kLong, single_is_slower), kTried);
  EXPECT_EQ(singles_of(choice, kKept, kLong, single_is_slower), 0);
  EXPECT_EQ(singles_of(choice, kTrial, kLong, single_is_slower), kTried);
  EXPECT_EQ(singles_of(choice, kKept, kLong, single_is_slower), 0);
}

TEST(SingleCopyChoice, OneLateOperationDecidesNothing) {
  SingleCopyChoice choice(SingleCopy::Auto);
  int number = 0;
  singles_of(choice, kTrial, kLong, [&](bool single) { return ++number == kTrial ? 10ms : single ? 50us : 90us; });
  EXPECT_TRUE(choice.choose(kLong));
}

TEST(SingleCopyChoice, AWayThatIsHardlyQuickerReplacesNoOther) {
  SingleCopyChoice choice(SingleCopy::Auto);
  singles_of(choice, kTrial, kLong, [](bool single) { return single ? 98us : 100us; });
  EXPECT_FALSE(choice.choose(kLong));
}

TEST(SingleCopyChoice, WhatHasNoTimesYetStaysAsItIs) {
  SingleCopyChoice choice(SingleCopy::Auto);
  for (int i = 0; i < kTrial; ++i) choice.choose(kLong);
  EXPECT_FALSE(choice.choose(kLong));
}

TEST(SingleCopyChoice, LengthsDifferByTheirPowersOfTwo) {
  SingleCopyChoice choice(SingleCopy::Auto);
  singles_of(choice, kTrial, kLong, [](bool single) { return single ? 50us : 90us; });
  singles_of(choice, kTrial, 4 * kLong, [](bool single) { return single ? 900us : 400us; });
  EXPECT_TRUE(choice.choose(kLong + kLong / 2));
  EXPECT_FALSE(choice.choose(4 * kLong));
  EXPECT_FALSE(choice.choose(std::size_t{1} << 50));
}

TEST(SingleCopyChoice, ASettingIsObeyedAndShortOnesNeverAre) {
  SingleCopyChoice always(SingleCopy::Always), never(SingleCopy::Never);
  EXPECT_EQ(singles_of(always, kTrial + kKept, kLong, [](bool) { return 1us; }), kTrial + kKept);
  EXPECT_EQ(singles_of(never, kTrial + kKept, kLong, [](bool) { return 1us; }), 0);
  EXPECT_TRUE(always.choose(SingleCopyChoice::kLeastBytes));
  EXPECT_FALSE(always.choose(SingleCopyChoice::kLeastBytes - 1));
  always.refuse();
  EXPECT_FALSE(always.choose(kLong));
}

class Setting : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv(kVariable); }
};

TEST_F(Setting, IsOneOfThreeWords) {
  EXPECT_EQ(single_copy_setting(), SingleCopy::Auto);
  ::setenv(kVariable, "auto", 1);
  EXPECT_EQ(single_copy_setting(), SingleCopy::Auto);
  ::setenv(kVariable, "never", 1);
  EXPECT_EQ(single_copy_setting(), SingleCopy::Never);
  ::setenv(kVariable, "always", 1);
  EXPECT_EQ(single_copy_setting(), SingleCopy::Always);
  for (const char* value : {"", "0", "yes", "Always"}) {
    ::setenv(kVariable, value, 1);
    try {
      single_copy_setting();
      ADD_FAILURE() << "'" << value << "' was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_EQ(std::string(error.what()),
                "TUTTI_SINGLE_COPY is '" + std::string(value) + "': auto, never or always is expected");
    }
  }
}

}  // namespace
}  // namespace tutti::comm
