// `tutti run` with dynamic rendezvous: who coordinates, nodes that come late, leave, or are lost.

#include <gtest/gtest.h>

#include "two_agents.h"

namespace tutti::test {
namespace {

// Agents that meet at one endpoint. The first one is there, and coordinates, before others start.
class Meeting {
 public:
  explicit Meeting(std::string nnodes, Words more = {})
      : port_("127.0.0.1"), nnodes_(std::move(nnodes)), more_(std::move(more)) {}

  Running start(const std::string& script, const Words& more = {}) {
    const std::string endpoint = "127.0.0.1:" + std::to_string(port_.port());
    return start_agent(joined(joined({"--nnodes", nnodes_, "--rdzv-endpoint", endpoint}, more_), more), script);
  }

 private:
  const MeetingPort port_;
  const std::string nnodes_;
  const Words more_;
};

/// Two agents whose ranks say "RANK of WORLD_SIZE"; which of them coordinates is open until that is printed.
struct Pair {
  Pair(Meeting& meeting, const std::string& script) : one(meeting.start(script)), other(meeting.start(script)) {}
  bool both_print(const std::string& text) { return one.prints(text) && other.prints(text); }
  Running& coordinator() { return contains(one.out(), "0 of 2") ? one : other; }
  Running& second() { return contains(one.out(), "0 of 2") ? other : one; }
  Running one, other;
};

// Lasts until the world has two ranks.
constexpr char kUntilTwo[] =
    "echo $RANK of $WORLD_SIZE, start $TORCHELASTIC_RESTART_COUNT; if [ $WORLD_SIZE = 2 ]; then exit 0; fi; "
    "exec sleep 1000";
// Lasts until it is alone.
constexpr char kUntilAlone[] = "echo $RANK of $WORLD_SIZE; if [ $WORLD_SIZE = 1 ]; then exit 0; fi; exec sleep 1000";

const Words kHurry{"--rdzv-conf", "last_call_timeout=0.1", "--grace", "0.5", "--no-label"};

TEST(RunRendezvous, WhicheverAgentCanBindTheEndpointCoordinates) {
  Meeting meeting("2");
  Pair agents(meeting, "echo $RANK of $WORLD_SIZE");
  agents.one.expect_end(0);
  agents.other.expect_end(0);
  EXPECT_EQ(sorted_lines(agents.one.out() + agents.other.out()), (Words{"[rank 0] 0 of 2", "[rank 1] 1 of 2"}));
  // The coordinator, whose node is the first, shows the table.
  expect_parts(agents.coordinator().err(), {"2 ranks on 2 nodes"});
  EXPECT_EQ(agents.second().err(), "");
}

TEST(RunRendezvous, ANodeThatComesLateIsTakenIn) {
  Meeting meeting("1:2", kHurry);
  Running first = meeting.start(kUntilTwo);
  ASSERT_TRUE(first.prints("0 of 1, start 0")) << first.err();
  ASSERT_TRUE(first.complains("1 ranks on 1 nodes")) << first.err();
  Running late = meeting.start(kUntilTwo);
  late.expect_end(0);
  first.expect_end(0);
  expect_parts(first.out(), {"0 of 2, start 0\n"});  // it costs no restart
  expect_parts(late.out(), {"1 of 2, start 0\n"});
  expect_match(first.err(), "a node \\(agent pid \\d+ on \\S+\\) has come");
}

TEST(RunRendezvous, WithoutTheNodeThatLeavesTheOthersGoOn) {
  Meeting meeting("1:2", {"--rdzv-conf", "last_call_timeout=30", "--grace", "0.5"});
  Pair agents(meeting, kUntilAlone);
  ASSERT_TRUE(agents.both_print("of 2"));
  Running &leaver = agents.second(), &stayer = agents.coordinator();
  leaver.kill(SIGTERM);
  leaver.expect_end(128 + SIGTERM);
  expect_parts(leaver.err(), {"stopped by SIGTERM; this node leaves the job"});
  stayer.expect_end(0);
  expect_parts(stayer.out(), {"0 of 1\n"});
  expect_parts(stayer.err(), {"was stopped by SIGTERM and leaves the job"});
}

TEST(RunRendezvous, ALostNodeCostsARestartAndTheWorldShrinks) {
  Meeting meeting("1:2", {"--rdzv-conf", "last_call_timeout=30", "--grace", "0.5", "--max-restarts", "1"});
  Pair agents(meeting, kUntilAlone);
  ASSERT_TRUE(agents.both_print("of 2"));
  Running& stayer = agents.coordinator();
  agents.second().kill(SIGKILL);
  stayer.expect_end(0);
  expect_parts(stayer.out(), {"0 of 1\n"});
  expect_match(stayer.err(), "node 1 \\(.*\\) was lost: its agent is gone");
  expect_parts(stayer.err(), {"restart 1 of at most 1"});
}

TEST(RunRendezvous, ASpareNodeTakesTheLostOnesPlace) {
  Meeting meeting("2", {"--grace", "0.5", "--max-restarts", "1"});
  const std::string script =
      "echo $RANK of $WORLD_SIZE, start $TORCHELASTIC_RESTART_COUNT; if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then exit "
      "0; fi; exec sleep 1000";
  Pair agents(meeting, script);
  ASSERT_TRUE(agents.both_print("of 2, start 0"));
  Running spare = meeting.start(script);
  ASSERT_TRUE(spare.complains("the job runs on its 2 nodes; this one waits as a spare")) << spare.err();
  Running& stayer = agents.coordinator();
  agents.second().kill(SIGKILL);
  stayer.expect_end(0);
  spare.expect_end(0);
  expect_parts(spare.out(), {"1 of 2, start 1\n"});
}

TEST(RunRendezvous, AnotherJobAtTheSameEndpointIsNotJoined) {
  Meeting meeting("2");
  Running first = meeting.start("exit 0", {"--rdzv-id", "blue"});
  ASSERT_FALSE(first.has_ended(std::chrono::milliseconds(100)));
  Running other = meeting.start("exit 0", {"--rdzv-id", "green"});
  Running* refused = nullptr;
  for (int tries = 0; tries < 600 && refused == nullptr; ++tries) {
    for (Running* agent : {&first, &other})
      if (agent->has_ended(std::chrono::milliseconds(50))) refused = agent;
  }
  ASSERT_NE(refused, nullptr);
  refused->expect_end(1);
  expect_parts(refused->err(), {"the nodes disagree on --rdzv-id"});
}

TEST(RunRendezvous, ANodeThatWaitsCanBeStopped) {
  Meeting meeting("2");
  Running alone = meeting.start("exit 0", {"--rdzv-conf", "join_timeout=60"});
  EXPECT_TRUE(alone.complains("1 of 2 nodes are here")) << alone.err();
  alone.kill(SIGINT);
  alone.expect_end(128 + SIGINT);
}

}  // namespace
}  // namespace tutti::test
