// Ranks whose tuning files differ take the same algorithms: those of rank 0's file.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/tests/support/run_processes.h>

#include <fstream>
#include <string>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using tutti::test::ExitStatus;
using tutti::test::Processes;

class TuningFiles : public testing::Test {
 protected:
  void write(int rank, const std::string& text) {
    std::ofstream(folder_.file("rank" + std::to_string(rank) + ".json")) << text;
  }

  /// A file by which `algorithm` is always the fastest all_reduce.
  static std::string preferring(const std::string& algorithm) {
    Tuning tuning{.host = "a", .date = "today", .place = {"tcp", 3, 1}, .model = {}, .rows = {}};
    tuning.rows = {{OpKind::AllReduce, algorithm, 4, 1e-6}};
    return tuning_text(tuning);
  }

  /// Which algorithms the ranks say that they took; all end well.
  std::vector<std::string> run() {
    Processes processes(
        {.command = {"sh", "-c", "TUTTI_TUNING=$1/rank$RANK.json exec \"$0\" 100000", TUTTI_WORLD_RANK, folder_.path()},
         .count = 3,
         .environment = {"TUTTI_TRANSPORT=tcp"}});
    std::vector<std::string> taken;
    for (int rank = 0; rank < 3; ++rank) {
      const auto status = processes.wait(rank);
      EXPECT_TRUE(status && *status == (ExitStatus{false, 0})) << "rank " << rank << ": " << processes.err(rank);
      const std::string said = processes.out(rank);
      const std::size_t at = said.find("took ");
      taken.push_back(at == std::string::npos ? said : said.substr(at, said.find('\n', at) - at));
      errors_.push_back(processes.err(rank));
    }
    return taken;
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> errors_;
};

TEST_F(TuningFiles, OfRankZeroIsTheOneThatCounts) {
  write(0, preferring("double_tree"));
  write(1, preferring("ring"));
  write(2, "broken");
  EXPECT_EQ(run(), std::vector<std::string>(3, "took double_tree double_tree"));
  EXPECT_EQ(errors_[2].find("is not used"), std::string::npos) << "nobody reads rank 2's file";
}

TEST_F(TuningFiles, ThatRankZeroCannotUseIsUsedByNobody) {
  write(0, "broken");
  write(1, preferring("double_tree"));
  write(2, preferring("double_tree"));
  const auto said = run();
  test::expect_absent(said[0], {"double_tree"});
  EXPECT_EQ(said, std::vector<std::string>(3, said[0]));
  test::expect_parts(errors_[0], {"rank0.json is not used: it is not JSON"});
}

}  // namespace
}  // namespace tutti::comm
