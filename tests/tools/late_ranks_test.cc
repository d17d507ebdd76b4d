// Which ranks of an elastic job have come too late.
#include <gtest/gtest.h>
#include <tutti/tools/run/elastic/late_ranks.h>

namespace tutti::tools {
namespace {

using Places = std::vector<std::size_t>;

constexpr Attendance finished_after(int generation) { return {.running = false, .since = 0, .entered = generation}; }
constexpr Attendance running(int since, int entered) { return {.running = true, .since = since, .entered = entered}; }

TEST(LateRanksOf, GenerationTwo) {
  const std::vector<Attendance> members{finished_after(2), finished_after(1), running(2, 1), running(2, -1)};
  const LateRanks result = late_ranks(members, 2);
  EXPECT_EQ(result.late, (Places{2, 3}));
  EXPECT_EQ(result.finished, 1u) << "rank 0 has been there";
}

TEST(LateRanksOf, AGenerationThatAllHaveEnteredAreNone) {
  EXPECT_EQ(late_ranks({finished_after(1), finished_after(1), running(1, 1)}, 1).late, Places{});
}

TEST(LateRanksOf, AGenerationAreNoneWhileOthersRun) {
  EXPECT_EQ(late_ranks({finished_after(0), running(0, 0), running(1, -1)}, 1).late, Places{});
}

TEST(LateRanksOf, AGenerationHaveNotFinishedThemselves) {
  const Attendance new_one{.running = false, .since = 1, .entered = -1};
  EXPECT_EQ(late_ranks({finished_after(0), new_one, running(1, -1)}, 1).late, Places{2});
}

TEST(LateRanksOf, TheFirstGenerationAreNone) {
  EXPECT_EQ(late_ranks({finished_after(-1), running(0, -1)}, 0).late, Places{});
}

}  // namespace
}  // namespace tutti::tools
