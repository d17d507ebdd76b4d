// `tutti run --chaos` and TUTTI_CHAOS: for any program on comm, counted in collectives.

#include <gtest/gtest.h>

#include "tutti_program.h"

namespace tutti::test {
namespace {

Finished bench_under(const Words& options, const Words& environment = {}) {
  const Words bench{"--", TUTTI_PROGRAM, "bench", "all_reduce", "--min-bytes", "64", "--max-bytes", "64"};
  return tutti(joined(joined({"run", "-n", "2"}, options), bench), environment);
}

TEST(ChaosOfComm, ARankDiesAtACollectiveAndIsNamed) {
  const Finished run = bench_under({"--chaos", "kill:rank=1,step=5"});
  expect_failure(run, 128 + SIGKILL,
                 {"chaos: rank 1 kills itself at step 5", "tutti run: rank 1 (pid ", "was killed by SIGKILL"});
}

TEST(ChaosOfComm, TheEnvironmentIsEnoughAndARestartIsSpared) {
  const Finished run =
      bench_under({"--max-restarts", "1"}, {"TUTTI_CHAOS=kill:rank=0,step=3;delay:rank=1,ms=1,step=2"});
  expect_success(run);
  expect_parts(run.err, {"chaos: rank 0 kills itself at step 3", "chaos: rank 1 waits at step 2"});
}

TEST(ChaosOfComm, WhatIsNotUnderstoodIsRefusedBeforeARankStarts) {
  const Finished run = bench_under({"--chaos", "melt:rank=1"});
  EXPECT_EQ(run.status, exited(2));
  EXPECT_TRUE(run.err.starts_with("tutti run: --chaos: chaos \"melt:rank=1\"")) << run.err;
  const Finished wrong = bench_under({}, {"TUTTI_CHAOS=melt:rank=1"});
  EXPECT_NE(wrong.status, exited(0));
  expect_parts(wrong.err, {"chaos \"melt:rank=1\""});
}

}  // namespace
}  // namespace tutti::test
