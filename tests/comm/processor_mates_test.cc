// Who waits beside a rank that waits, too, looks on; who does not gives way at once.
#include <gtest/gtest.h>
#include <sched.h>
#include <tutti/comm/shared/processor_mates.h>

namespace tutti::comm {
namespace {

/// Rank 0 of four, whose thread stays where it is.
class Mates : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed_, &allowed_), 0);
    here_ = ::sched_getcpu();
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(here_, &only);
    ASSERT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
    mates_.tell(here_);
    put(1, here_ + 1);
    put(2, here_);
    put(3, here_ + 1);
  }
  void TearDown() override { ::sched_setaffinity(0, sizeof allowed_, &allowed_); }

  void put(int index, int processor) { segment_.state(index).processor = processor + 1; }

  /// Whether rank 0 sees the news that come at its third look, where those in `arrived` wait for the same.
  bool looks_on(int arrived) {
    looks_ = 0;
    return mates_.look_on([&] { return ++looks_ == 3; }, [&](int index) { return (arrived >> index & 1) != 0; });
  }

  HostSegment segment_ = HostSegment::create(4);
  ProcessorMates mates_{segment_, 0};
  cpu_set_t allowed_{};
  int here_ = 0;
  int looks_ = 0;
};

TEST_F(Mates, LookOnTogether) {
  EXPECT_TRUE(looks_on(1 << 2));
  EXPECT_EQ(looks_, 3);
}

TEST_F(Mates, GiveWayToWhoHasNotArrived) {
  EXPECT_FALSE(looks_on(1 << 1 | 1 << 3));
  EXPECT_EQ(looks_, 0);
}

TEST_F(Mates, GiveWayWhereThereAreMoreThanTwo) {
  put(1, here_);
  EXPECT_FALSE(looks_on(1 << 1 | 1 << 2));
  EXPECT_EQ(looks_, 0);
}

TEST_F(Mates, GiveWayWhereSomebodyElseHasAProcessorAlone) {
  put(3, here_ + 2);
  EXPECT_FALSE(looks_on(1 << 2));
  EXPECT_EQ(looks_, 0);
}

TEST_F(Mates, AreNotThoseWhoseProcessorNobodyKnows) {
  put(2, -1);
  EXPECT_FALSE(looks_on(1 << 2));
}

TEST_F(Mates, GiveWayWhenNothingComes) {
  EXPECT_FALSE(mates_.look_on([] { return false; }, [](int) { return true; }));
}

TEST_F(Mates, AreToldWhereThisRankIs) {
  EXPECT_EQ(segment_.state(0).processor, here_ + 1);
  segment_.state(0).processor = 0;
  mates_.tell(here_);
  EXPECT_EQ(segment_.state(0).processor, here_ + 1);
}

}  // namespace
}  // namespace tutti::comm
