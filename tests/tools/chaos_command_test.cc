// `tutti run --chaos` and TUTTI_CHAOS: for any program on comm, counted in collectives.

#include <gtest/gtest.h>

#include "tutti_program.h"

namespace tutti::test {
namespace {

Finished bench_under(const std::vector<std::string>& options) {
  std::vector<std::string> command{TUTTI_PROGRAM, "run", "-n", "2"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", TUTTI_PROGRAM, "bench", "all_reduce", "--min-bytes", "64", "--max-bytes", "64"});
  return run_program(command);
}

TEST(ChaosOfComm, ARankDiesAtACollectiveAndIsNamed) {
  const Finished run = bench_under({"--chaos", "kill:rank=1,step=5"});
  EXPECT_EQ(run.status, exited(128 + SIGKILL));
  EXPECT_TRUE(contains(run.err, "chaos: rank 1 kills itself at step 5")) << run.err;
  EXPECT_TRUE(contains(run.err, "tutti run: rank 1 (pid ")) << run.err;
  EXPECT_TRUE(contains(run.err, "was killed by SIGKILL")) << run.err;
}

TEST(ChaosOfComm, TheEnvironmentIsEnoughAndARestartIsSpared) {
  const Finished run =
      run_program({TUTTI_PROGRAM, "run", "-n", "2", "--max-restarts", "1", "--", TUTTI_PROGRAM, "bench", "barrier"},
                  {"TUTTI_CHAOS=kill:rank=0,step=3;delay:rank=1,ms=1,step=2"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_TRUE(contains(run.err, "chaos: rank 0 kills itself at step 3")) << run.err;
  EXPECT_TRUE(contains(run.err, "chaos: rank 1 waits at step 2")) << run.err;
}

TEST(ChaosOfComm, WhatIsNotUnderstoodIsRefusedBeforeARankStarts) {
  const Finished run = bench_under({"--chaos", "melt:rank=1"});
  EXPECT_EQ(run.status, exited(2));
  EXPECT_TRUE(run.err.starts_with("tutti run: --chaos: chaos \"melt:rank=1\"")) << run.err;
  const Finished wrong = run_program({TUTTI_PROGRAM, "run", "-n", "2", "--", TUTTI_PROGRAM, "bench", "barrier"},
                                     {"TUTTI_CHAOS=melt:rank=1"});
  EXPECT_NE(wrong.status, exited(0));
  EXPECT_TRUE(contains(wrong.err, "chaos \"melt:rank=1\"")) << wrong.err;
}

}  // namespace
}  // namespace tutti::test
