// `tutti run` with dynamic rendezvous: who coordinates, nodes that come late, leave, or are lost.

#include <gtest/gtest.h>

#include <regex>

#include "two_agents.h"

namespace tutti::test {
namespace {

using Agent = std::unique_ptr<Processes>;

// Agents that meet at one endpoint. The first one is there, and coordinates, before others start.
class Meeting {
 public:
  explicit Meeting(std::string nnodes, std::vector<std::string> more = {})
      : port_("127.0.0.1"), nnodes_(std::move(nnodes)), more_(std::move(more)) {}

  Agent start(const std::string& script, const std::vector<std::string>& more = {}) {
    std::vector<std::string> options{"--nnodes", nnodes_, "--rdzv-endpoint",
                                     "127.0.0.1:" + std::to_string(port_.port())};
    options.insert(options.end(), more_.begin(), more_.end());
    options.insert(options.end(), more.begin(), more.end());
    return start_agent(options, script);
  }

 private:
  const MeetingPort port_;
  const std::string nnodes_;
  const std::vector<std::string> more_;
};

// Lasts until the world has two ranks.
constexpr char kUntilTwo[] =
    "echo $RANK of $WORLD_SIZE, start $TORCHELASTIC_RESTART_COUNT; if [ $WORLD_SIZE = 2 ]; then exit 0; fi; "
    "exec sleep 1000";
// Lasts until it is alone.
constexpr char kUntilAlone[] = "echo $RANK of $WORLD_SIZE; if [ $WORLD_SIZE = 1 ]; then exit 0; fi; exec sleep 1000";

const std::vector<std::string> kHurry{"--rdzv-conf", "last_call_timeout=0.1", "--grace", "0.5", "--no-label"};

TEST(RunRendezvous, WhicheverAgentCanBindTheEndpointCoordinates) {
  Meeting meeting("2");
  const Agent a = meeting.start("echo $RANK of $WORLD_SIZE");
  const Agent b = meeting.start("echo $RANK of $WORLD_SIZE");
  EXPECT_EQ(a->wait(0), exited(0)) << a->err(0);
  EXPECT_EQ(b->wait(0), exited(0)) << b->err(0);
  EXPECT_EQ(sorted_lines(a->out(0) + b->out(0)), (std::vector<std::string>{"[rank 0] 0 of 2", "[rank 1] 1 of 2"}));
  // The coordinator shows the table, and its node is the first.
  const bool a_coordinates = a->err(0).find("2 ranks on 2 nodes") != std::string::npos;
  EXPECT_NE((a_coordinates ? a : b)->out(0).find("0 of 2"), std::string::npos);
  EXPECT_EQ((a_coordinates ? b : a)->err(0), "");
}

TEST(RunRendezvous, ANodeThatComesLateIsTakenIn) {
  Meeting meeting("1:2", kHurry);
  const Agent first = meeting.start(kUntilTwo);
  ASSERT_TRUE(first->wait_for_output(0, "0 of 1, start 0")) << first->err(0);
  ASSERT_TRUE(first->wait_for_error(0, "1 ranks on 1 nodes")) << first->err(0);
  const Agent late = meeting.start(kUntilTwo);
  EXPECT_EQ(late->wait(0), exited(0)) << late->err(0);
  EXPECT_EQ(first->wait(0), exited(0)) << first->err(0);
  EXPECT_NE(first->out(0).find("0 of 2, start 0\n"), std::string::npos) << first->out(0);  // it costs no restart
  EXPECT_NE(late->out(0).find("1 of 2, start 0\n"), std::string::npos) << late->out(0);
  EXPECT_TRUE(std::regex_search(first->err(0), std::regex("a node \\(agent pid \\d+ on \\S+\\) has come")))
      << first->err(0);
}

TEST(RunRendezvous, WithoutTheNodeThatLeavesTheOthersGoOn) {
  Meeting meeting("1:2", {"--rdzv-conf", "last_call_timeout=30", "--grace", "0.5"});
  const Agent first = meeting.start(kUntilAlone);
  const Agent second = meeting.start(kUntilAlone);
  ASSERT_TRUE(first->wait_for_output(0, "of 2")) << first->err(0);
  ASSERT_TRUE(second->wait_for_output(0, "of 2")) << second->err(0);
  const bool first_coordinates = first->out(0).find("0 of 2") != std::string::npos;
  Processes& leaver = first_coordinates ? *second : *first;
  Processes& stayer = first_coordinates ? *first : *second;
  leaver.kill(0, SIGTERM);
  EXPECT_EQ(leaver.wait(0), exited(128 + SIGTERM)) << leaver.err(0);
  EXPECT_NE(leaver.err(0).find("stopped by SIGTERM; this node leaves the job"), std::string::npos) << leaver.err(0);
  EXPECT_EQ(stayer.wait(0), exited(0)) << stayer.err(0);
  EXPECT_NE(stayer.out(0).find("0 of 1\n"), std::string::npos) << stayer.out(0);
  EXPECT_NE(stayer.err(0).find("was stopped by SIGTERM and leaves the job"), std::string::npos) << stayer.err(0);
}

TEST(RunRendezvous, ALostNodeCostsARestartAndTheWorldShrinks) {
  Meeting meeting("1:2", {"--rdzv-conf", "last_call_timeout=30", "--grace", "0.5", "--max-restarts", "1"});
  const Agent a = meeting.start(kUntilAlone);
  const Agent b = meeting.start(kUntilAlone);
  ASSERT_TRUE(a->wait_for_output(0, "of 2")) << a->err(0);
  ASSERT_TRUE(b->wait_for_output(0, "of 2")) << b->err(0);
  const bool a_coordinates = a->out(0).find("0 of 2") != std::string::npos;
  Processes& stayer = a_coordinates ? *a : *b;
  (a_coordinates ? b : a)->kill(0, SIGKILL);
  EXPECT_EQ(stayer.wait(0), exited(0)) << stayer.err(0);
  EXPECT_NE(stayer.out(0).find("0 of 1\n"), std::string::npos) << stayer.out(0);
  EXPECT_TRUE(std::regex_search(stayer.err(0), std::regex("node 1 \\(.*\\) was lost: its agent is gone")))
      << stayer.err(0);
  EXPECT_NE(stayer.err(0).find("restart 1 of at most 1"), std::string::npos) << stayer.err(0);
}

TEST(RunRendezvous, ASpareNodeTakesTheLostOnesPlace) {
  Meeting meeting("2", {"--grace", "0.5", "--max-restarts", "1"});
  const std::string script =
      "echo $RANK of $WORLD_SIZE, start $TORCHELASTIC_RESTART_COUNT; if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then exit "
      "0; fi; exec sleep 1000";
  const Agent a = meeting.start(script);
  const Agent b = meeting.start(script);
  ASSERT_TRUE(a->wait_for_output(0, "of 2, start 0")) << a->err(0);
  ASSERT_TRUE(b->wait_for_output(0, "of 2, start 0")) << b->err(0);
  const Agent spare = meeting.start(script);
  ASSERT_TRUE(spare->wait_for_error(0, "the job runs on its 2 nodes; this one waits as a spare")) << spare->err(0);
  const bool a_coordinates = a->out(0).find("0 of 2") != std::string::npos;
  (a_coordinates ? b : a)->kill(0, SIGKILL);
  EXPECT_EQ((a_coordinates ? a : b)->wait(0), exited(0)) << a->err(0) << b->err(0);
  EXPECT_EQ(spare->wait(0), exited(0)) << spare->err(0);
  EXPECT_NE(spare->out(0).find("1 of 2, start 1\n"), std::string::npos) << spare->out(0);
}

TEST(RunRendezvous, AnotherJobAtTheSameEndpointIsNotJoined) {
  Meeting meeting("2");
  const Agent first = meeting.start("exit 0", {"--rdzv-id", "blue"});
  ASSERT_FALSE(first->wait(0, std::chrono::milliseconds(100)).has_value());
  const Agent other = meeting.start("exit 0", {"--rdzv-id", "green"});
  Processes* refused = nullptr;
  for (int tries = 0; tries < 600 && refused == nullptr; ++tries) {
    for (const Agent* agent : {&first, &other}) {
      if ((*agent)->wait(0, std::chrono::milliseconds(50))) refused = agent->get();
    }
  }
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->wait(0), exited(1));
  EXPECT_NE(refused->err(0).find("the nodes disagree on --rdzv-id"), std::string::npos) << refused->err(0);
}

TEST(RunRendezvous, ANodeThatWaitsCanBeStopped) {
  Meeting meeting("2");
  const Agent alone = meeting.start("exit 0", {"--rdzv-conf", "join_timeout=60"});
  EXPECT_TRUE(alone->wait_for_error(0, "1 of 2 nodes are here")) << alone->err(0);
  alone->kill(0, SIGINT);
  EXPECT_EQ(alone->wait(0), exited(128 + SIGINT));
}

}  // namespace
}  // namespace tutti::test
