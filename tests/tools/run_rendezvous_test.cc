// `tutti run` with dynamic rendezvous: who coordinates, nodes that come late, leave, or are lost.

#include <gtest/gtest.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/tests/comm/store_test_support.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/tools/run/nodes/node_options.h>
#include <tutti/tools/run/reserved_port.h>

#include <fstream>

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

// Agents and ranks that a scheduler has started, with its variables as it sets them: tests/jobs has the schedulers.

Words slurm_task(int rank, int tasks) {
  return {"SLURM_JOB_ID=7",
          "SLURM_STEP_ID=0",
          "SLURM_PROCID=" + std::to_string(rank),
          "SLURM_LOCALID=0",
          "SLURM_GTIDS=" + std::to_string(rank),
          "SLURM_STEP_NUM_TASKS=" + std::to_string(tasks),
          "TUTTI_JOB_SECRET=secret of the test"};
}

comm::Environment environment_of(const Words& assignments) {
  comm::test::Variables variables;
  for (const std::string& line : assignments)
    variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  return comm::test::environment_of(variables);
}

class ScheduledNodes : public testing::Test {
 protected:
  Words task(int rank, int tasks) const {
    return joined(slurm_task(rank, tasks), {"TUTTI_MEET_DIR=" + folder_.path().string()});
  }
  std::string file() const { return folder_ / "slurm-7-0-agents.meet"; }

  const trainer::TemporaryFolder folder_;
};

TEST_F(ScheduledNodes, PlaceAndFileComeFromTheStep) {
  const auto asked = [](const std::string& nodes, const Words& variables) {
    tools::NodeArguments arguments{.nnodes = nodes};
    tools::ask_scheduler(arguments, environment_of(variables));
    return arguments;
  };
  EXPECT_EQ(asked("3", task(2, 3)).node_rank, 2);
  EXPECT_EQ(asked("3", task(2, 3)).meeting_file, file());
  EXPECT_EQ(asked("3", {"SLURM_JOB_ID=7", "SLURM_NTASKS=3"}).node_rank, std::nullopt);
  EXPECT_EQ(asked("3", joined(task(2, 3), {"TUTTI_LAUNCHER=none"})).node_rank, std::nullopt);
  const auto refused = [&] { asked("2", task(2, 3)); };
  EXPECT_THROW(refused(), std::invalid_argument);
  const std::string text = trainer::error_of(refused);
  expect_parts(text, {"--nnodes is 2, but Slurm step 7.0", "has 3 processes: start one agent on each node"});
}

TEST_F(ScheduledNodes, AgentsOfAStepMeetWithoutAnAddress) {
  const std::string script =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $TUTTI_LAUNCHER";
  auto second = start_agent({"--nnodes", "2", "-n", "1", "--no-label"}, script, task(1, 2));
  auto first = start_agent({"--nnodes", "2", "-n", "2", "--no-label"}, script, task(0, 2));
  first.expect_end(0);
  second.expect_end(0);
  EXPECT_EQ(sorted_lines(first.out()), (Words{"0/3 0/2 0/2 env", "1/3 1/2 0/2 env"}));
  EXPECT_EQ(sorted_lines(second.out()), (Words{"2/3 0/1 1/2 env"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ScheduledNodes, LeftoverOfAnEarlierRunIsNotFollowed) {
  comm::World world;
  world.job_id = "slurm-7-0-agents";
  world.world_size = 2;
  const tools::ReservedPort nobody("127.0.0.1");
  comm::Announcement stale = comm::own_announcement(world, {"127.0.0.1"}, nobody.port());
  stale.pid = 1 << 30;
  std::ofstream(file()) << comm::encode_announcement(stale, "secret of the test");
  auto second = start_agent({"--nnodes", "2", "-n", "1"}, "echo here", task(1, 2));
  auto first = start_agent({"--nnodes", "2", "-n", "1"}, "echo here", task(0, 2));
  second.expect_end(0);
  first.expect_end(0);
}

TEST_F(ScheduledNodes, SecondAgentSaysWhatItMissesAndCanBeStopped) {
  expect_failure(
      run_program(run_command({"--nnodes", "2", "--rdzv-conf", "join_timeout=0.3"}, "echo here"), task(1, 2)), 1,
      {file(), "TUTTI_MEET_DIR"});
  auto waiting = start_agent({"--nnodes", "2"}, "echo here", task(1, 2));
  ASSERT_TRUE(waiting.complains("that the agent of node 0 publishes in " + file())) << waiting.err();
  waiting.kill(SIGTERM);
  waiting.expect_end(128 + SIGTERM);
}

Finished bench(const Words& environment, const Words& options) {
  return tutti(joined({"bench", "barrier", "--iterations", "1", "--warmup", "0"}, options), environment);
}

TEST_F(ScheduledNodes, LauncherCanBeNamedOrDenied) {
  const Finished conflict = bench(task(0, 6), {"-n", "2"});
  EXPECT_NE(conflict.status, exited(0));
  expect_parts(conflict.err, {"WORLD_SIZE=6"});
  expect_success(bench(task(0, 6), {"-n", "2", "--launcher", "none"}), {"ranks 2"});
  const Finished lone_task = bench(task(0, 1), {"-n", "2"});
  EXPECT_EQ(lone_task.status, exited(0)) << lone_task.err;
  const Finished differ = bench(joined(task(0, 6), {"TUTTI_LAUNCHER=slurm"}), {"--launcher", "none"});
  expect_parts(differ.err, {"TUTTI_LAUNCHER=slurm"});
  const Finished unknown = bench({}, {"--launcher", "slrum"});
  expect_parts(unknown.err, {"no launcher; known are auto, none, env"});
}

}  // namespace
}  // namespace tutti::test
