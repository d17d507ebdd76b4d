// `tutti train --chaos`: a rank dies, freezes or dawdles at a known step, and the run copes as it does with real
// trouble.

#include "small_run.h"

namespace tutti::trainer {
namespace {

class ChaosCommand : public SmallRun {};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(ChaosCommand, AKilledRankIsNamedAndARestartEndsWithTheUndisturbedParameters) {
  const auto disturbed = run(
      joined({TUTTI_PROGRAM, "run", "-n", "2", "--max-restarts", "1", "--"},
             saving({"--epochs", "2", "--json", path("chaos.json"), "--resume", "--chaos", "kill:rank=1,step=75"})));
  EXPECT_EQ(disturbed.status, kDone) << disturbed.err;
  EXPECT_TRUE(contains(disturbed.err, "chaos: rank 1 kills itself at step 75")) << disturbed.err;
  EXPECT_TRUE(contains(disturbed.err, "was killed by SIGKILL")) << disturbed.err;
  EXPECT_TRUE(contains(disturbed.err, "starting all ranks again (restart 1 of at most 1)")) << disturbed.err;
  EXPECT_EQ(outcome("chaos.json").parameter_sha256, uninterrupted(2).parameter_sha256);
}

TEST_F(ChaosCommand, AFrozenRankIsNamed) {
  const auto frozen =
      run(command({"--nproc", "2", "--epochs", "1", "--timeout", "1", "--chaos", "freeze:rank=1,step=9"}));
  EXPECT_NE(frozen.status, kDone);
  EXPECT_TRUE(contains(frozen.err, "chaos: rank 1 freezes at step 9")) << frozen.err;
  EXPECT_TRUE(contains(frozen.err, "rank 1")) << frozen.err;
}

TEST_F(ChaosCommand, SlowAndLateRanksChangeNoResult) {
  const auto slow = run(command({"--nproc", "2", "--epochs", "1", "--json", path("slow.json"), "--chaos",
                                 "slow:rank=0,factor=2;delay:rank=1,ms=30,step=5"}));
  EXPECT_EQ(slow.status, kDone) << slow.err;
  EXPECT_TRUE(contains(slow.err, "rank 0 becomes slow") && contains(slow.err, "rank 1 waits at step 5")) << slow.err;
  EXPECT_EQ(outcome("slow.json").parameter_sha256, uninterrupted(1).parameter_sha256);
}

}  // namespace
}  // namespace tutti::trainer
