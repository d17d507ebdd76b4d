// `tutti run` on several nodes with static rendezvous: places, failures, restarts, and that nothing is left.

#include <gtest/gtest.h>

#include <chrono>
#include <regex>

#include "two_agents.h"

namespace tutti::test {
namespace {

using std::chrono::seconds;
using Lines = std::vector<std::string>;

constexpr char kLastsLong[] = "echo pid $$; exec sleep 1000";

void expect_all_gone(TwoAgents& agents) {
  for (Processes* agent : {&agents.first(), &agents.second()}) {
    const std::vector<pid_t> pids = numbers_after(agent->out(0), "pid ");
    EXPECT_EQ(pids.size(), 2u) << agent->out(0);
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
  const auto second = start_agent(static_options(port, 2, 1, {"-n", "1", "--rdzv-id", "job7"}), script);
  const auto first = start_agent(static_options(port, 2, 0, {"-n", "2", "--rdzv-id", "job7"}), script);
  EXPECT_EQ(first->wait(0), exited(0)) << first->err(0);
  EXPECT_EQ(second->wait(0), exited(0)) << second->err(0);
  EXPECT_EQ(sorted_lines(first->out(0)), (Lines{"[rank 0] 0/3 0/2 0/2 127.0.0.1 0 job7 job7 True tcp://127.0.0.1",
                                                "[rank 1] 1/3 1/2 0/2 127.0.0.1 0 job7 job7 True tcp://127.0.0.1"}));
  EXPECT_EQ(sorted_lines(second->out(0)), (Lines{"[rank 2] 2/3 0/1 1/2 127.0.0.1 0 job7 job7 True tcp://127.0.0.1"}));
  EXPECT_EQ(second->err(0), "");
}

TEST(RunNodes, LinesBeginWithHostAndRank) {
  const MeetingPort port("127.0.0.1");
  const auto first = start_agent(static_options(port, 2, 0), "echo x");
  Processes second({.command = run_command(static_options(port, 2, 1), "echo x"),
                    .count = 1,
                    .ranks = false,
                    .environment = with_home()});
  EXPECT_EQ(second.wait(0), exited(0)) << second.err(0);
  const Lines lines = sorted_lines(second.out(0));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(std::regex_match(lines[1], std::regex("\\[[^/. ]+/3\\] x"))) << lines[1];
}

TEST(RunNodes, TheCoordinatorShowsWhereEachRankIs) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  const std::string table = agents.first().err(0);
  EXPECT_TRUE(std::regex_search(
      table, std::regex("job \\S+, round 0: 4 ranks on 2 nodes; agents meet at 127.0.0.1:\\d+ \\(--master-addr\\), "
                        "secret from TUTTI_JOB_SECRET; ranks meet at port \\d+, PyTorch's at \\d+\n")))
      << table;
  const std::vector<pid_t> pids = numbers_after(agents.second().out(0), "[rank 3] pid ");
  ASSERT_EQ(pids.size(), 1u);
  EXPECT_TRUE(
      std::regex_search(table, std::regex("\n  3 +1 +\\S+ +" + std::to_string(pids[0]) + " +127\\.0\\.0\\.1 +\\d+")))
      << table;
}

TEST(RunNodes, BothAgentsNameTheFirstCauseAndEndWithItsStatus) {
  TwoAgents agents("echo begun; if [ $RANK = 3 ]; then echo 'cannot go on' >&2; exit 7; fi; exec sleep 1000",
                   {"-n", "2", "--grace", "0.5"});
  EXPECT_EQ(agents.first().wait(0), exited(7)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(7)) << agents.second().err(0);
  const std::regex cause("tutti run: rank 3 \\(pid \\d+ on \\S+\\) exited with status 7 after");
  EXPECT_TRUE(std::regex_search(agents.first().err(0), cause)) << agents.first().err(0);
  EXPECT_TRUE(std::regex_search(agents.second().err(0), cause)) << agents.second().err(0);
  // The lines of a rank on the other node, at the coordinator.
  EXPECT_NE(agents.first().err(0).find("  last lines of rank 3:\n"), std::string::npos) << agents.first().err(0);
  EXPECT_NE(agents.first().err(0).find("    | cannot go on\n"), std::string::npos) << agents.first().err(0);
}

TEST(RunNodes, AFailureRestartsAllRanksOfAllNodes) {
  TwoAgents agents(
      "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
      "if [ $RANK = 3 ]; then exit $((2-TORCHELASTIC_RESTART_COUNT)); fi",
      {"-n", "2", "--max-restarts", "2"});
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(0)) << agents.second().err(0);
  for (const char* line : {"[rank 0] try 0 of 2\n", "[rank 1] try 1 of 2\n", "[rank 0] try 2 of 2\n"})
    EXPECT_NE(agents.first().out(0).find(line), std::string::npos) << agents.first().out(0);
  EXPECT_NE(agents.second().out(0).find("[rank 2] try 2 of 2\n"), std::string::npos) << agents.second().out(0);
  EXPECT_NE(agents.first().err(0).find("restart 2 of at most 2"), std::string::npos) << agents.first().err(0);
}

TEST(RunNodes, AKilledAgentIsNamedAndNothingIsLeft) {
  TwoAgents agents(kLastsLong, {"-n", "2", "--grace", "0.5"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second().kill(0, SIGKILL);
  EXPECT_EQ(agents.first().wait(0), exited(1));
  EXPECT_TRUE(std::regex_search(agents.first().err(0),
                                std::regex("tutti run: node 1 \\(agent pid " + std::to_string(agents.second().pid(0)) +
                                           " on \\S+\\) was lost: its agent is gone")))
      << agents.first().err(0);
  expect_all_gone(agents);
}

TEST(RunNodes, AKilledCoordinatorEndsTheOtherAgentsAtOnce) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.first().kill(0, SIGKILL);
  expect_all_gone(agents);
  EXPECT_EQ(agents.second().wait(0), exited(1));
  EXPECT_NE(agents.second().err(0).find("lost the coordinator at 127.0.0.1:" + std::to_string(agents.port().port()) +
                                        ": it is gone"),
            std::string::npos)
      << agents.second().err(0);
}

TEST(RunNodes, AFrozenAgentIsNamed) {
  TwoAgents agents(kLastsLong, {"-n", "2", "--grace", "0.5"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second().kill(0, SIGSTOP);
  EXPECT_TRUE(agents.first().wait_for_error(0, "was lost: nothing was heard of it for ")) << agents.first().err(0);
  agents.second().kill(0, SIGCONT);
  EXPECT_EQ(agents.first().wait(0), exited(1));
  EXPECT_EQ(agents.second().wait(0), exited(1)) << agents.second().err(0);
  expect_all_gone(agents);
}

TEST(RunNodes, AFrozenCoordinatorIsNamed) {
  TwoAgents agents(kLastsLong, {"-n", "2", "--grace", "0.5"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.first().kill(0, SIGSTOP);
  EXPECT_EQ(agents.second().wait(0), exited(1));
  EXPECT_NE(agents.second().err(0).find("it has not answered for "), std::string::npos) << agents.second().err(0);
  agents.first().kill(0, SIGKILL);
  expect_all_gone(agents);
}

// Both fail at about the same time as the other node starts its ranks.
TEST(RunNodes, ARankThatFailsAtOnceStopsANodeThatIsStillStarting) {
  const MeetingPort port("127.0.0.1");
  const auto second = start_agent(static_options(port, 2, 1, {"-n", "8", "--grace", "0.5"}), "exec sleep 1000");
  const auto first = start_agent(static_options(port, 2, 0, {"-n", "1", "--grace", "0.5"}), "exit 3");
  EXPECT_EQ(first->wait(0), exited(3)) << first->err(0);
  EXPECT_EQ(second->wait(0), exited(3)) << second->err(0);
}

TEST(RunNodes, ANodeThatIsStartedAgainTakesItsPlaceInTheNextRound) {
  const std::string script =
      "echo pid $$; if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo again; exit 0; fi; exec sleep 1000";
  TwoAgents agents(script, {"-n", "2", "--grace", "0.5", "--max-restarts", "1"});
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second().kill(0, SIGKILL);
  ASSERT_TRUE(agents.first().wait_for_error(0, "restart 1 of at most 1")) << agents.first().err(0);
  const auto replacement =
      start_agent(static_options(agents.port(), 2, 1, {"-n", "2", "--grace", "0.5", "--max-restarts", "1"}), script);
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(replacement->wait(0), exited(0)) << replacement->err(0);
  EXPECT_NE(replacement->out(0).find("[rank 3] again\n"), std::string::npos) << replacement->out(0);
}

// The coordinator's own ranks have ended; the others' still get the signal and their time.
TEST(RunNodes, ASignalToACoordinatorWithoutRanksReachesTheOthers) {
  TwoAgents agents(
      "if [ $GROUP_RANK = 0 ]; then echo ready; exit 0; fi; trap 'echo saved; exit 0' TERM; echo ready; "
      "while :; do sleep 0.05; done");
  ASSERT_TRUE(agents.wait_for_line("ready"));
  agents.first().kill(0, SIGTERM);
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(0)) << agents.second().err(0);
  EXPECT_NE(agents.second().out(0).find("[rank 3] saved\n"), std::string::npos) << agents.second().out(0);
}

TEST(RunNodes, ASignalToTheCoordinatorReachesAllNodes) {
  TwoAgents agents("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(agents.wait_for_line("ready"));
  agents.first().kill(0, SIGTERM);
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(0)) << agents.second().err(0);
  for (const char* line : {"[rank 2] saved\n", "[rank 3] saved\n"})
    EXPECT_NE(agents.second().out(0).find(line), std::string::npos) << agents.second().out(0);
}

TEST(RunNodes, InAJobOfFixedSizeASignalToAnyAgentEndsAll) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  agents.second().kill(0, SIGINT);
  EXPECT_EQ(agents.first().wait(0), exited(128 + SIGINT)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(128 + SIGINT)) << agents.second().err(0);
  EXPECT_TRUE(std::regex_search(agents.first().err(0), std::regex("node 1 \\(.*\\) was stopped by SIGINT")))
      << agents.first().err(0);
  expect_all_gone(agents);
}

// Schedulers signal all agents: the ranks of this one had the signal by the other's order already.
TEST(RunNodes, ASignalThatComesToEachAgentCountsOnce) {
  TwoAgents agents(kSavesUntilXcpu);
  ASSERT_TRUE(agents.wait_for_line("ready"));
  agents.second().kill(0, SIGTERM);
  ASSERT_TRUE(agents.wait_for_line("saving"));
  agents.first().kill(0, SIGTERM);
  agents.first().kill(0, SIGXCPU);
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(0)) << agents.second().err(0);
}

TEST(RunNodes, UserSignalsToTheCoordinatorReachAllNodes) {
  TwoAgents agents("trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(agents.wait_for_line("ready"));
  agents.first().kill(0, SIGUSR1);
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(0)) << agents.second().err(0);
  EXPECT_NE(agents.second().out(0).find("[rank 3] got it\n"), std::string::npos) << agents.second().out(0);
}

TEST(RunNodes, NodesThatDisagreeAreToldBothValues) {
  const MeetingPort port("127.0.0.1");
  const auto first = start_agent(static_options(port, 2, 0, {"--rdzv-id", "blue"}), "exit 0");
  const auto second = start_agent(static_options(port, 2, 1, {"--rdzv-id", "green"}), "exit 0");
  EXPECT_EQ(second->wait(0), exited(1));
  EXPECT_TRUE(std::regex_search(
      second->err(0),
      std::regex("tutti run: the nodes disagree on --rdzv-id: the coordinator \\(pid \\d+ on \\S+\\) has "
                 "'blue', this node \\(pid \\d+ on \\S+\\) has 'green'")))
      << second->err(0);
  first->kill(0, SIGTERM);
  EXPECT_EQ(first->wait(0), exited(128 + SIGTERM));
}

TEST(RunNodes, APlaceCannotBeTakenTwice) {
  const MeetingPort port("127.0.0.1");
  const auto first = start_agent(static_options(port, 3, 0), "exit 0");
  const auto second = start_agent(static_options(port, 3, 1), "exit 0");
  const auto third = start_agent(static_options(port, 3, 1), "exit 0");
  // Which of the two comes first is open.
  for (int tries = 0; tries < 600; ++tries) {
    if (second->wait(0, std::chrono::milliseconds(50)) || third->wait(0, std::chrono::milliseconds(50))) break;
  }
  const std::string text = second->err(0) + third->err(0);
  EXPECT_NE(text.find("tutti run: --node-rank 1 is taken: pid "), std::string::npos) << text;
  first->kill(0, SIGTERM);
  EXPECT_EQ(first->wait(0), exited(128 + SIGTERM));
}

TEST(RunNodes, AnotherSecretIsRefused) {
  const MeetingPort port("127.0.0.1");
  const auto first = start_agent(static_options(port, 2, 0), "exit 0");
  const auto second = start_agent(static_options(port, 2, 1), "exit 0", with_home("another secret"));
  EXPECT_EQ(second->wait(0), exited(1));
  EXPECT_NE(second->err(0).find("secret"), std::string::npos) << second->err(0);
  first->kill(0, SIGTERM);
  EXPECT_EQ(first->wait(0), exited(128 + SIGTERM));
}

TEST(RunNodes, AMissingNodeIsNamed) {
  const MeetingPort port("127.0.0.1");
  const auto first = start_agent(static_options(port, 3, 0, {"--rdzv-conf", "join_timeout=0.3"}), "exit 0");
  EXPECT_EQ(first->wait(0), exited(1));
  EXPECT_NE(first->err(0).find("1 of 3 nodes are here; waiting for --node-rank 1, 2"), std::string::npos)
      << first->err(0);
}

TEST(RunNodes, AProgramThatIsMissingOnOneNodeEndsAll) {
  const MeetingPort port("127.0.0.1");
  const auto first = start_agent(static_options(port, 2, 0), "exec sleep 1000");
  std::vector<std::string> command{TUTTI_PROGRAM, "run"};
  for (const std::string& word : static_options(port, 2, 1)) command.push_back(word);
  for (const char* word : {"--", "/nowhere/sh", "-c", "true"}) command.push_back(word);
  Processes second({.command = command, .count = 1, .ranks = false, .environment = with_home()});
  EXPECT_EQ(second.wait(0), exited(127)) << second.err(0);
  EXPECT_EQ(first->wait(0), exited(127)) << first->err(0);
  for (const std::string& text : {first->err(0), second.err(0)}) {
    EXPECT_TRUE(std::regex_search(
        text, std::regex("node 1 \\(\\S+\\) could not start its ranks: cannot execute '/nowhere/sh'")))
        << text;
  }
}

TEST(RunNodes, ATakenPortNamesItsHolder) {
  TwoAgents agents(kLastsLong);
  ASSERT_TRUE(agents.wait_for_line("pid"));
  const auto other = start_agent(static_options(agents.port(), 2, 0), "exit 0");
  EXPECT_EQ(other->wait(0), exited(1));
  EXPECT_NE(other->err(0).find("pid " + std::to_string(agents.first().pid(0))), std::string::npos) << other->err(0);
}

TEST(RunNodes, RanksTrainTogether) {
  const std::string script =
      std::string("exec '") + TUTTI_PROGRAM + "' bench all_reduce --min-bytes 4 --max-bytes 1024";
  TwoAgents agents(script);
  EXPECT_EQ(agents.first().wait(0), exited(0)) << agents.first().err(0);
  EXPECT_EQ(agents.second().wait(0), exited(0)) << agents.second().err(0);
  EXPECT_NE(agents.first().out(0).find("all_reduce"), std::string::npos) << agents.first().out(0);
}

}  // namespace
}  // namespace tutti::test
