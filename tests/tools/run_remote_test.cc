// `tutti run -H`: agents that a launcher starts by a remote command. The command of these tests stays on this host.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "two_agents.h"

namespace tutti::test {
namespace {

using std::chrono::seconds;

// A shell script that is called as ssh is: HOST, then the words of a command line.
class RemoteShell {
 public:
  explicit RemoteShell(const std::string& script)
      : path_(testing::TempDir() + "/tutti_rsh_" + std::to_string(::getpid())) {
    std::ofstream(path_) << "#!/bin/sh\nhost=$1; shift\n" << script << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  ~RemoteShell() { std::filesystem::remove(path_); }
  RemoteShell(const RemoteShell&) = delete;
  RemoteShell& operator=(const RemoteShell&) = delete;

  Words options(const Words& more = {}) const {
    return joined({"-H", "nodea:2,nodeb:1", "--rsh", path_, "--grace", "0.5"}, more);
  }

 private:
  const std::string path_;
};

// With a login message, as many hosts have.
constexpr char kWorks[] = "echo \"Welcome to $host\"; exec sh -c \"$*\"";
constexpr char kLastsLong[] = "echo pid $$; exec sleep 1000";

std::vector<pid_t> pids_of_three(Running& launcher) {
  EXPECT_TRUE(launcher.ranks_print(3, "pid")) << launcher.err();
  EXPECT_TRUE(launcher.complains("cores")) << launcher.err();
  return numbers_after(launcher.out(), "pid ");
}

TEST(RunRemote, EveryHostGetsItsRanksAndNoBannerGetsIntoTheirOutput) {
  const RemoteShell shell(kWorks);
  const Finished run = tutti_run(shell.options(), "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK");
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_EQ(sorted_lines(run.out), (Words{"[nodea/0] 0/3 0/2 0", "[nodea/1] 1/3 1/2 0", "[nodeb/2] 2/3 0/1 1"}));
  expect_parts(run.err, {"[nodea] Welcome to nodea\n"});
  expect_match(run.err, "\n  2 +1 +nodeb +\\d+");
}

TEST(RunRemote, TheSecretStandsInNoCommandLine) {
  const RemoteShell shell(kWorks);
  const Finished run =
      tutti_run(shell.options(),
                "all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '); case \"$all\" in "
                "*\"$TUTTI_JOB_SECRET\"*) echo leaked;; *tutti*) echo safe ${#TUTTI_JOB_SECRET};; esac");
  EXPECT_EQ(sorted_lines(run.out), (Words{"[nodea/0] safe 64", "[nodea/1] safe 64", "[nodeb/2] safe 64"})) << run.err;
}

TEST(RunRemote, TheFirstFailingRankIsNamedOnceWithItsStatus) {
  const RemoteShell shell(kWorks);
  const Finished run =
      tutti_run(shell.options(), "if [ $RANK = 2 ]; then echo 'cannot go on'; exit 5; fi; exec sleep 1000");
  EXPECT_EQ(run.status, exited(5));
  expect_match(run.err,
               "tutti run: rank 2 \\(pid \\d+ on nodeb\\) exited with status 5[^\n]*\n  last lines of rank "
               "2:\n    \\| cannot go on\n");
  EXPECT_EQ(run.err.find("lost the coordinator"), std::string::npos) << run.err;
}

TEST(RunRemote, ARemoteCommandThatFailsIsNamedWithWhatItSaid) {
  const RemoteShell shell("if [ $host = nodeb ]; then echo 'Permission denied (publickey).' >&2; exit 255; fi; " +
                          std::string(kWorks));
  const Finished run = tutti_run(shell.options(), "exec sleep 1000");
  EXPECT_EQ(run.status, exited(1));
  expect_match(run.err,
               "tutti run: cannot run the agent of node 1: '\\S+' to nodeb ended with status 255; it "
               "printed:\n    \\| Permission denied \\(publickey\\)\\.\n");
}

TEST(RunRemote, ARemoteCommandThatHangsIsNamedAndEnded) {
  const RemoteShell shell("if [ $host = nodeb ]; then echo hangs $$; exec sleep 1000; fi; " + std::string(kWorks));
  const Finished run = tutti_run(shell.options({"--rdzv-conf", "join_timeout=3"}), "exit 0");
  expect_failure(
      run, 1,
      {"1 of 2 nodes are here; waiting for --node-rank 1", "to nodeb has not started tutti so far; it printed:"});
  const std::vector<pid_t> pids = numbers_after(run.err, "hangs ");
  ASSERT_FALSE(pids.empty()) << run.err;
  EXPECT_TRUE(wait_until_gone(pids[0], seconds(2)));
}

TEST(RunRemote, AKilledLauncherLeavesNothing) {
  const RemoteShell shell(kWorks);
  auto launcher = start_agent(shell.options(), kLastsLong, {});
  const std::vector<pid_t> pids = pids_of_three(launcher);
  ASSERT_EQ(pids.size(), 3u);
  launcher.kill(SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(wait_until_gone(pid, seconds(2))) << pid;
}

TEST(RunRemote, ASignalToTheLauncherEndsAllRanks) {
  const RemoteShell shell(kWorks);
  auto launcher = start_agent(shell.options(), kLastsLong, {});
  ASSERT_EQ(pids_of_three(launcher).size(), 3u);
  launcher.kill(SIGTERM);
  launcher.expect_end(128 + SIGTERM);
  expect_match(launcher.err(), "the launcher \\(pid \\d+ on \\S+\\) was stopped by SIGTERM");
}

TEST(RunRemote, AnAgentThatIsLostIsStartedAgainForARestart) {
  const RemoteShell shell(kWorks);
  // The agent is the parent of its ranks.
  auto launcher = start_agent(shell.options({"--max-restarts", "1"}),
                              "echo start $TORCHELASTIC_RESTART_COUNT; if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; "
                              "then exit 0; fi; if [ $RANK = 2 ]; then kill -KILL $PPID; fi; exec sleep 1000",
                              {});
  launcher.expect_end(0);
  expect_match(launcher.err(), "node 1 \\(agent pid \\d+ on nodeb\\) was lost");
  expect_parts(launcher.out(), {"[rank 2] start 1\n"});
}

}  // namespace
}  // namespace tutti::test
