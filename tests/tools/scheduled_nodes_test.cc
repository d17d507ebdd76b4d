// Agents and ranks that a scheduler has started, with its variables as it sets them: tests/jobs has the schedulers.

#include <gtest/gtest.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/tests/comm/store_test_support.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>

#include <fstream>

#include "two_agents.h"

namespace tutti::test {
namespace {

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
  const auto node = tools::find_scheduled_node(3, environment_of(task(2, 3)));
  ASSERT_TRUE(node);
  EXPECT_EQ(node->node_rank, 2);
  EXPECT_EQ(node->meeting_file, file());
  EXPECT_EQ(tools::find_scheduled_node(3, environment_of({"SLURM_JOB_ID=7", "SLURM_NTASKS=3"})), std::nullopt);
  EXPECT_EQ(tools::find_scheduled_node(3, environment_of(joined(task(2, 3), {"TUTTI_LAUNCHER=none"}))), std::nullopt);
  const auto refused = [&] { tools::find_scheduled_node(2, environment_of(task(2, 3))); };
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
