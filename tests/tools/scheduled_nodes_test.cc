// Agents and ranks that a scheduler has started, with its variables as it sets them: tests/jobs has the schedulers.

#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "two_agents.h"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;
using comm::ErrorCode;
using Lines = std::vector<std::string>;

Lines slurm_task(int rank, int tasks) {
  return {"SLURM_JOB_ID=7",
          "SLURM_STEP_ID=0",
          "SLURM_PROCID=" + std::to_string(rank),
          "SLURM_LOCALID=0",
          "SLURM_GTIDS=" + std::to_string(rank),
          "SLURM_STEP_NUM_TASKS=" + std::to_string(tasks),
          "TUTTI_JOB_SECRET=secret of the test"};
}

comm::Environment environment_of(const Lines& assignments) {
  std::map<std::string, std::string> variables;
  for (const std::string& line : assignments)
    variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Lines with(Lines lines, const std::string& more) {
  lines.push_back(more);
  return lines;
}

class ScheduledNodes : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tutti_scheduled_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Lines task(int rank, int tasks) const { return with(slurm_task(rank, tasks), "TUTTI_MEET_DIR=" + folder_); }
  std::string file() const { return folder_ + "/slurm-7-0-agents.meet"; }

  std::string folder_;
};

TEST_F(ScheduledNodes, PlaceAndFileComeFromTheStep) {
  const auto node = tools::find_scheduled_node(3, environment_of(task(2, 3)));
  ASSERT_TRUE(node);
  EXPECT_EQ(node->node_rank, 2);
  EXPECT_EQ(node->meeting_file, file());
  EXPECT_EQ(tools::find_scheduled_node(3, environment_of({"SLURM_JOB_ID=7", "SLURM_NTASKS=3"})), std::nullopt);
  EXPECT_EQ(tools::find_scheduled_node(3, environment_of(with(task(2, 3), "TUTTI_LAUNCHER=none"))), std::nullopt);
  try {
    tools::find_scheduled_node(2, environment_of(task(2, 3)));
    FAIL() << "two nodes with three agents";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("--nnodes is 2, but Slurm step 7.0"), std::string::npos) << text;
    EXPECT_NE(text.find("has 3 processes: start one agent on each node"), std::string::npos) << text;
  }
}

TEST_F(ScheduledNodes, AgentsOfAStepMeetWithoutAnAddress) {
  const std::string script =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $TUTTI_LAUNCHER";
  const auto second = start_agent({"--nnodes", "2", "-n", "1", "--no-label"}, script, task(1, 2));
  const auto first = start_agent({"--nnodes", "2", "-n", "2", "--no-label"}, script, task(0, 2));
  EXPECT_EQ(first->wait(0), exited(0)) << first->err(0);
  EXPECT_EQ(second->wait(0), exited(0)) << second->err(0);
  EXPECT_EQ(sorted_lines(first->out(0)), (Lines{"0/3 0/2 0/2 env", "1/3 1/2 0/2 env"}));
  EXPECT_EQ(sorted_lines(second->out(0)), (Lines{"2/3 0/1 1/2 env"}));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ScheduledNodes, LeftoverOfAnEarlierRunIsNotFollowed) {
  comm::World world;
  world.job_id = "slurm-7-0-agents";
  world.world_size = 2;
  const tools::ReservedPort nobody("127.0.0.1");
  comm::Announcement stale = comm::own_announcement(world, {"127.0.0.1"}, nobody.port());
  stale.pid = 1 << 30;
  std::ofstream(file()) << comm::encode_announcement(stale, "secret of the test");
  const auto second = start_agent({"--nnodes", "2", "-n", "1"}, "echo here", task(1, 2));
  const auto first = start_agent({"--nnodes", "2", "-n", "1"}, "echo here", task(0, 2));
  EXPECT_EQ(second->wait(0), exited(0)) << second->err(0);
  EXPECT_EQ(first->wait(0), exited(0)) << first->err(0);
}

TEST_F(ScheduledNodes, SecondAgentSaysWhatItMissesAndCanBeStopped) {
  const Finished alone =
      run_program(run_command({"--nnodes", "2", "--rdzv-conf", "join_timeout=0.3"}, "echo here"), task(1, 2));
  EXPECT_EQ(alone.status, exited(1)) << alone.err;
  EXPECT_NE(alone.err.find(file()), std::string::npos) << alone.err;
  EXPECT_NE(alone.err.find("TUTTI_MEET_DIR"), std::string::npos) << alone.err;
  const auto waiting = start_agent({"--nnodes", "2"}, "echo here", task(1, 2));
  ASSERT_TRUE(waiting->wait_for_error(0, "waiting for the agent of node 0")) << waiting->err(0);
  waiting->kill(0, SIGTERM);
  EXPECT_EQ(waiting->wait(0), exited(128 + SIGTERM)) << waiting->err(0);
}

Finished bench(const Lines& environment, const Lines& options) {
  Lines command{TUTTI_PROGRAM, "bench", "barrier", "--iterations", "1", "--warmup", "0"};
  command.insert(command.end(), options.begin(), options.end());
  return run_program(command, environment);
}

TEST_F(ScheduledNodes, LauncherCanBeNamedOrDenied) {
  const Finished conflict = bench(task(0, 6), {"-n", "2"});
  EXPECT_NE(conflict.status, exited(0));
  EXPECT_NE(conflict.err.find("WORLD_SIZE=6"), std::string::npos) << conflict.err;
  const Finished own = bench(task(0, 6), {"-n", "2", "--launcher", "none"});
  EXPECT_EQ(own.status, exited(0)) << own.err;
  EXPECT_NE(own.out.find("ranks 2"), std::string::npos) << own.out;
  const Finished lone_task = bench(task(0, 1), {"-n", "2"});
  EXPECT_EQ(lone_task.status, exited(0)) << lone_task.err;
  const Finished differ = bench(with(task(0, 6), "TUTTI_LAUNCHER=slurm"), {"--launcher", "none"});
  EXPECT_NE(differ.err.find("TUTTI_LAUNCHER=slurm"), std::string::npos) << differ.err;
  const Finished unknown = bench({}, {"--launcher", "slrum"});
  EXPECT_NE(unknown.err.find("no launcher; known are auto, none, env"), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace tutti::test
