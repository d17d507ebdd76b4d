// --encrypt between real processes: how it is asked for, what a job does in which only some have, and that a death is
// noticed as over plain TCP.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/comm/process_group.h>

#include <string>
#include <vector>

#include "fault_job.h"

namespace tutti::comm {
namespace {

using namespace test;

/// Ranks of the `loop` scenario, each started with what `assignment` makes of $RANK.
Processes loop(int count, const std::string& assignment, const std::string& operation = "all_reduce") {
  const std::string script = assignment + " exec \"$0\" 60000 loop " + operation;
  return Processes(
      {.command = {"sh", "-c", script, TUTTI_FAULT_RANK}, .count = count, .environment = {"TUTTI_TRANSPORT=tcp"}});
}

TEST(EncryptionProcesses, AKilledRankIsNamedWithinASecond) {
  for (const char* operation : {"all_reduce", "all_reduce_large", "p2p", "turns"}) {
    SCOPED_TRACE(operation);
    Processes ranks = loop(3, "TUTTI_ENCRYPT=1", operation);
    for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(ranks.wait_for_output(rank, "beat 1")) << ranks.out(rank);
    const auto start = steady_clock::now();
    ranks.kill(1, SIGKILL);
    for (const int rank : {0, 2}) {
      ASSERT_TRUE(ranks.wait(rank, kNoticed).has_value()) << ranks.out(rank);
      expect_parts(ranks.out(rank), {"lost rank 1 ("});
    }
    EXPECT_LT(steady_clock::now() - start, milliseconds(1000) + kSlower);
  }
}

/// Of any rank and setting: settings_test.cc.
TEST(EncryptionProcesses, OfWhichOneHasAnotherVariableFormNoGroupAndSayWhatIsDifferent) {
  for (const std::string variable : {"TUTTI_ENCRYPT=1", "TUTTI_ALGO=double_tree", "TUTTI_TRACE=/dev/null"}) {
    SCOPED_TRACE(variable);
    Processes ranks = loop(3, "test $RANK = 1 && export " + variable + ";");
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(ranks.wait(rank, milliseconds(10'000)).has_value()) << ranks.out(rank);
      expect_parts(ranks.out(rank), {"group 'world' cannot form: its ranks were started differently: ",
                                     " (" + variable.substr(0, variable.find('=')) + ") is ", " on rank 1 ("});
    }
  }
}

TEST(EncryptionProcesses, TheVariableIsOneOrZero) {
  Processes ranks = loop(2, "TUTTI_ENCRYPT=yes");
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(ranks.wait(rank).has_value());
    expect_parts(ranks.out(rank), {"TUTTI_ENCRYPT=\"yes\" is neither 1 (encrypt) nor 0"});
  }
}

TEST(EncryptionProcesses, WithoutASecretItIsRefusedAtOnce) {
  World world;  // made by hand, where nobody has thought of a secret
  world.rank = 1;
  world.world_size = 2;
  world.store_file = "/nonexistent/store";
  expect_error(ErrorCode::InvalidArgument, {"TUTTI_JOB_SECRET"},
               [&] { ProcessGroup::connect(world, {.encrypt = true}); });
}

TEST(EncryptionProcesses, AWorldOfOneNeedsNoSecret) {
  const auto group = ProcessGroup::connect(World{}, {.encrypt = true});
  EXPECT_EQ(group->transport_name(), "inproc");
}

}  // namespace
}  // namespace tutti::comm
