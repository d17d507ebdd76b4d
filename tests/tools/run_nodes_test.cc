// `tutti run` on several nodes with static rendezvous: places, failures, restarts, and that nothing is left.

#include <gtest/gtest.h>

#include <chrono>
#include <regex>

#include "two_agents.h"

namespace tutti::test {
namespace {

using std::chrono::seconds;

constexpr char kLastsLong[] = "echo pid $$; exec sleep 1000";

void expect_all_gone(TwoAgents& agents) {
  for (const Running* agent : {&agents.first, &agents.second}) {
    const std::vector<pid_t> pids = numbers_after(agent->out(), "pid ");
    EXPECT_EQ(pids.size(), 2u) << agent->out();
    for (const pid_t pid : pids) EXPECT_TRUE(wait_until_gone(pid, seconds(2))) << "rank's process " << pid;
  }
}

TEST(RunNodes, EachRankGetsItsPlaceAsFromTorchrun) {
  const std::string script =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR "
      "$TORCHELASTIC_RESTART_COUNT $TUTTI_JOB_ID $TORCHELASTIC_RUN_ID "
      "$TORCHELASTIC_USE_AGENT_STORE ${TUTTI_STORE%:*}; test \"$MASTER_PORT\" -gt 1023 -a ${TUTTI_STORE##*:} != "
      "$MASTER_PORT";
  const MeetingPort port("127.0.0.1");
  auto second = start_agent(static_options(port, 2, 1, {"-n", "1", "--rdzv-id", "job7"}), script);
  auto first = start_agent(static_options(port, 2, 0, {"-n", "2", "--rdzv-id", "job7"}), script);
  first.expect_end(0);
  second.expect_end(0);
  EXPECT_EQ(sorted_lines(first.out()), (Words{"[rank 0] 0/3 0/2 0/2 127.0.0.1 0 job7 job7 True tcp://127.0.0.1",
                                              "[rank 1] 1/3 1/2 0/2 127.0.0.1 0 job7 job7 True tcp://127.0.0.1"}));
  EXPECT_EQ(sorted_lines(second.out()), (Words{"[rank 2] 2/3 0/1 1/2 127.0.0.1 0 job7 job7 True tcp://127.0.0.1"}));
  EXPECT_EQ(second.err(), "");
}

TEST(RunNodes, LinesBeginWithHostAndRank) {
  const MeetingPort port("127.0.0.1");
  auto first = start_agent(static_options(port, 2, 0), "echo x");
  Running second(run_command(static_options(port, 2, 1), "echo x"), with_home());
  second.expect_end(0);
  const Words lines = sorted_lines(second.out());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(std::regex_match(lines[1], std::regex("\\[[^/. ]+/3\\] x"))) << lines[1];
}

TEST(RunNodes, TheCoordinatorShowsWhereEachRankIs) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  const std::string table = agents.first.err();
  expect_match(table,
               "job \\S+, round 0: 4 ranks on 2 nodes; agents meet at 127.0.0.1:\\d+ \\(--master-addr\\), "
               "secret from TUTTI_JOB_SECRET; ranks meet at port \\d+, PyTorch's at \\d+\n");
  const std::vector<pid_t> pids = numbers_after(agents.second.out(), "[rank 3] pid ");
  ASSERT_EQ(pids.size(), 1u);
  expect_match(table, "\n  3 +1 +\\S+ +" + std::to_string(pids[0]) + " +127\\.0\\.0\\.1 +\\d+");
}

TEST(RunNodes, BothAgentsNameTheFirstCauseAndEndWithItsStatus) {
  TwoAgents agents("echo begun; if [ $RANK = 3 ]; then echo 'cannot go on' >&2; exit 7; fi; exec sleep 1000",
                   {"-n", "2", "--grace", "0.5"});
  agents.expect_end(7);
  for (const Running* agent : {&agents.first, &agents.second})
    expect_match(agent->err(), "tutti run: rank 3 \\(pid \\d+ on \\S+\\) exited with status 7 after");
  // The lines of a rank on the other node, at the coordinator.
  expect_parts(agents.first.err(), {"  last lines of rank 3:\n", "    | cannot go on\n"});
}

TEST(RunNodes, AFailureRestartsAllRanksOfAllNodes) {
  TwoAgents agents(
      "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
      "if [ $RANK = 3 ]; then exit $((2-TORCHELASTIC_RESTART_COUNT)); fi",
      {"-n", "2", "--max-restarts", "2"});
  agents.expect_end(0);
  expect_parts(agents.first.out(), {"[rank 0] try 0 of 2\n", "[rank 1] try 1 of 2\n", "[rank 0] try 2 of 2\n"});
  expect_parts(agents.second.out(), {"[rank 2] try 2 of 2\n"});
  expect_parts(agents.first.err(), {"restart 2 of at most 2"});
}

TEST(RunNodes, AKilledAgentIsNamedAndNothingIsLeft) {
  TwoAgents agents(kLastsLong, {"-n", "2", "--grace", "0.5"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second.kill(SIGKILL);
  agents.first.expect_end(1);
  expect_match(agents.first.err(), "tutti run: node 1 \\(agent pid " + std::to_string(agents.second.pid()) +
                                       " on \\S+\\) was lost: its agent is gone");
  expect_all_gone(agents);
}

TEST(RunNodes, AKilledCoordinatorEndsTheOtherAgentsAtOnce) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.first.kill(SIGKILL);
  expect_all_gone(agents);
  agents.second.expect_end(1);
  expect_parts(agents.second.err(),
               {"lost the coordinator at 127.0.0.1:" + std::to_string(agents.port.port()) + ": it is gone"});
}

TEST(RunNodes, AFrozenAgentIsNamed) {
  TwoAgents agents(kLastsLong, {"-n", "2", "--grace", "0.5"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second.kill(SIGSTOP);
  EXPECT_TRUE(agents.first.complains("was lost: nothing was heard of it for ")) << agents.first.err();
  agents.second.kill(SIGCONT);
  agents.expect_end(1);
  expect_all_gone(agents);
}

TEST(RunNodes, AFrozenCoordinatorIsNamed) {
  TwoAgents agents(kLastsLong, {"-n", "2", "--grace", "0.5"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.first.kill(SIGSTOP);
  agents.second.expect_end(1);
  expect_parts(agents.second.err(), {"it has not answered for "});
  agents.first.kill(SIGKILL);
  expect_all_gone(agents);
}

// Both fail at about the same time as the other node starts its ranks.
TEST(RunNodes, ARankThatFailsAtOnceStopsANodeThatIsStillStarting) {
  const MeetingPort port("127.0.0.1");
  auto second = start_agent(static_options(port, 2, 1, {"-n", "8", "--grace", "0.5"}), "exec sleep 1000");
  auto first = start_agent(static_options(port, 2, 0, {"-n", "1", "--grace", "0.5"}), "exit 3");
  first.expect_end(3);
  second.expect_end(3);
}

TEST(RunNodes, ANodeThatIsStartedAgainTakesItsPlaceInTheNextRound) {
  const std::string script =
      "echo pid $$; if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo again; exit 0; fi; exec sleep 1000";
  TwoAgents agents(script, {"-n", "2", "--grace", "0.5", "--max-restarts", "1"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second.kill(SIGKILL);
  ASSERT_TRUE(agents.first.complains("restart 1 of at most 1")) << agents.first.err();
  auto replacement =
      start_agent(static_options(agents.port, 2, 1, {"-n", "2", "--grace", "0.5", "--max-restarts", "1"}), script);
  agents.first.expect_end(0);
  replacement.expect_end(0);
  expect_parts(replacement.out(), {"[rank 3] again\n"});
}

/// The coordinator gets the signal once all ranks have set their traps and said that they are ready; all ends well.
/// Each of `said` stands in what the other node's ranks print.
void expect_passed_on(const std::string& traps, int signal, const Words& said) {
  TwoAgents agents(traps + "echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(agents.wait_for_line("ready"));
  agents.first.kill(signal);
  agents.expect_end(0);
  expect_parts(agents.second.out(), said);
}

TEST(RunNodes, ASignalToTheCoordinatorReachesAllNodes) {
  expect_passed_on("trap 'echo saved; exit 0' TERM; ", SIGTERM, {"[rank 2] saved\n", "[rank 3] saved\n"});
  // The coordinator's own ranks have ended, or are about to: the others' still get it and their time.
  expect_passed_on(
      "if [ $GROUP_RANK = 0 ]; then trap '' TERM; echo ready; exit 0; fi; trap 'echo saved; exit 0' TERM; ", SIGTERM,
      {"[rank 3] saved\n"});
}

TEST(RunNodes, UserSignalsToTheCoordinatorReachAllNodes) {
  expect_passed_on("trap 'echo got it; exit 0' USR1; ", SIGUSR1, {"[rank 3] got it\n"});
}

TEST(RunNodes, InAJobOfFixedSizeASignalToAnyAgentEndsAll) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second.kill(SIGINT);
  agents.expect_end(128 + SIGINT);
  expect_match(agents.first.err(), "node 1 \\(.*\\) was stopped by SIGINT");
  expect_all_gone(agents);
}

// Schedulers signal all agents: the ranks of this one had the signal by the other's order already.
TEST(RunNodes, ASignalThatComesToEachAgentCountsOnce) {
  TwoAgents agents(kSavesUntilXcpu);
  ASSERT_TRUE(agents.wait_for_line("ready"));
  agents.second.kill(SIGTERM);
  ASSERT_TRUE(agents.wait_for_line("saving"));
  agents.first.kill(SIGTERM);
  agents.first.kill(SIGXCPU);
  agents.expect_end(0);
}

TEST(RunNodes, NodesThatDisagreeAreToldBothValues) {
  const MeetingPort port("127.0.0.1");
  auto first = start_agent(static_options(port, 2, 0, {"--rdzv-id", "blue"}), "exit 0");
  auto second = start_agent(static_options(port, 2, 1, {"--rdzv-id", "green"}), "exit 0");
  second.expect_end(1);
  expect_match(second.err(),
               "tutti run: the nodes disagree on --rdzv-id: the coordinator \\(pid \\d+ on \\S+\\) has "
               "'blue', this node \\(pid \\d+ on \\S+\\) has 'green'");
  first.kill(SIGTERM);
  first.expect_end(128 + SIGTERM);
}

TEST(RunNodes, APlaceCannotBeTakenTwice) {
  const MeetingPort port("127.0.0.1");
  auto first = start_agent(static_options(port, 3, 0), "exit 0");
  auto second = start_agent(static_options(port, 3, 1), "exit 0");
  auto third = start_agent(static_options(port, 3, 1), "exit 0");
  // Which of the two comes first is open.
  for (int tries = 0; tries < 600; ++tries) {
    if (second.has_ended(std::chrono::milliseconds(50)) || third.has_ended(std::chrono::milliseconds(50))) break;
  }
  const std::string text = second.err() + third.err();
  expect_parts(text, {"tutti run: --node-rank 1 is taken: pid "});
  first.kill(SIGTERM);
  first.expect_end(128 + SIGTERM);
}

TEST(RunNodes, AnotherSecretIsRefused) {
  const MeetingPort port("127.0.0.1");
  auto first = start_agent(static_options(port, 2, 0), "exit 0");
  auto second = start_agent(static_options(port, 2, 1), "exit 0", with_home("another secret"));
  second.expect_end(1);
  expect_parts(second.err(), {"secret"});
  first.kill(SIGTERM);
  first.expect_end(128 + SIGTERM);
}

TEST(RunNodes, AMissingNodeIsNamed) {
  const MeetingPort port("127.0.0.1");
  auto first = start_agent(static_options(port, 3, 0, {"--rdzv-conf", "join_timeout=0.3"}), "exit 0");
  first.expect_end(1);
  expect_parts(first.err(), {"1 of 3 nodes are here; waiting for --node-rank 1, 2"});
}

TEST(RunNodes, AProgramThatIsMissingOnOneNodeEndsAll) {
  const MeetingPort port("127.0.0.1");
  auto first = start_agent(static_options(port, 2, 0), "exec sleep 1000");
  Running second(
      joined(joined({TUTTI_PROGRAM, "run"}, static_options(port, 2, 1)), {"--", "/nowhere/sh", "-c", "true"}),
      with_home());
  second.expect_end(127);
  first.expect_end(127);
  for (const std::string& text : {first.err(), second.err()}) {
    expect_match(text, "node 1 \\(\\S+\\) could not start its ranks: cannot execute '/nowhere/sh'");
  }
}

TEST(RunNodes, ATakenPortNamesItsHolder) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  auto other = start_agent(static_options(agents.port, 2, 0), "exit 0");
  other.expect_end(1);
  expect_parts(other.err(), {"pid " + std::to_string(agents.first.pid())});
}

TEST(RunNodes, RanksTrainTogether) {
  const std::string script =
      std::string("exec '") + TUTTI_PROGRAM + "' bench all_reduce --min-bytes 4 --max-bytes 1024";
  TwoAgents agents(script);
  agents.expect_end(0);
  expect_parts(agents.first.out(), {"all_reduce"});
}

}  // namespace
}  // namespace tutti::test
