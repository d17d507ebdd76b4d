// `tutti run -H`: agents that a launcher starts by a remote command. The command of these tests stays on this host.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

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

  std::vector<std::string> options(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> options{"-H", "nodea:2,nodeb:1", "--rsh", path_, "--grace", "0.5"};
    options.insert(options.end(), more.begin(), more.end());
    return options;
  }

 private:
  const std::string path_;
};

// With a login message, as many hosts have.
constexpr char kWorks[] = "echo \"Welcome to $host\"; exec sh -c \"$*\"";
constexpr char kLastsLong[] = "echo pid $$; exec sleep 1000";

std::vector<pid_t> pids_of_three(Processes& launcher) {
  for (const char* text : {"[rank 0] pid", "[rank 1] pid", "[rank 2] pid"})
    EXPECT_TRUE(launcher.wait_for_output(0, text)) << launcher.err(0);
  EXPECT_TRUE(launcher.wait_for_error(0, "cores")) << launcher.err(0);
  return numbers_after(launcher.out(0), "pid ");
}

TEST(RunRemote, EveryHostGetsItsRanksAndNoBannerGetsIntoTheirOutput) {
  const RemoteShell shell(kWorks);
  const Finished run = tutti_run(shell.options(), "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK");
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_EQ(sorted_lines(run.out),
            (std::vector<std::string>{"[nodea/0] 0/3 0/2 0", "[nodea/1] 1/3 1/2 0", "[nodeb/2] 2/3 0/1 1"}));
  EXPECT_NE(run.err.find("[nodea] Welcome to nodea\n"), std::string::npos) << run.err;
  EXPECT_TRUE(std::regex_search(run.err, std::regex("\n  2 +1 +nodeb +\\d+"))) << run.err;
}

TEST(RunRemote, TheSecretStandsInNoCommandLine) {
  const RemoteShell shell(kWorks);
  const Finished run =
      tutti_run(shell.options(),
                "all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '); case \"$all\" in "
                "*\"$TUTTI_JOB_SECRET\"*) echo leaked;; *tutti*) echo safe ${#TUTTI_JOB_SECRET};; esac");
  EXPECT_EQ(sorted_lines(run.out),
            (std::vector<std::string>{"[nodea/0] safe 64", "[nodea/1] safe 64", "[nodeb/2] safe 64"}))
      << run.err;
}

TEST(RunRemote, TheFirstFailingRankIsNamedOnceWithItsStatus) {
  const RemoteShell shell(kWorks);
  const Finished run =
      tutti_run(shell.options(), "if [ $RANK = 2 ]; then echo 'cannot go on'; exit 5; fi; exec sleep 1000");
  EXPECT_EQ(run.status, exited(5));
  EXPECT_TRUE(std::regex_search(
      run.err, std::regex("tutti run: rank 2 \\(pid \\d+ on nodeb\\) exited with status 5[^\n]*\n  last lines of rank "
                          "2:\n    \\| cannot go on\n")))
      << run.err;
  EXPECT_EQ(run.err.find("lost the coordinator"), std::string::npos) << run.err;
}

TEST(RunRemote, ARemoteCommandThatFailsIsNamedWithWhatItSaid) {
  const RemoteShell shell("if [ $host = nodeb ]; then echo 'Permission denied (publickey).' >&2; exit 255; fi; " +
                          std::string(kWorks));
  const Finished run = tutti_run(shell.options(), "exec sleep 1000");
  EXPECT_EQ(run.status, exited(1));
  EXPECT_TRUE(std::regex_search(
      run.err, std::regex("tutti run: cannot run the agent of node 1: '\\S+' to nodeb ended with status 255; it "
                          "printed:\n    \\| Permission denied \\(publickey\\)\\.\n")))
      << run.err;
}

TEST(RunRemote, ARemoteCommandThatHangsIsNamedAndEnded) {
  const RemoteShell shell("if [ $host = nodeb ]; then echo hangs $$; exec sleep 1000; fi; " + std::string(kWorks));
  const Finished run = tutti_run(shell.options({"--rdzv-conf", "join_timeout=1"}), "exit 0");
  EXPECT_EQ(run.status, exited(1));
  EXPECT_NE(run.err.find("1 of 2 nodes are here; waiting for --node-rank 1"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("to nodeb has not started tutti so far; it printed:"), std::string::npos) << run.err;
  const std::vector<pid_t> pids = numbers_after(run.err, "hangs ");
  ASSERT_FALSE(pids.empty()) << run.err;
  EXPECT_TRUE(wait_until_gone(pids[0], seconds(2)));
}

TEST(RunRemote, AKilledLauncherLeavesNothing) {
  const RemoteShell shell(kWorks);
  const auto launcher = start_agent(shell.options(), kLastsLong, {});
  const std::vector<pid_t> pids = pids_of_three(*launcher);
  ASSERT_EQ(pids.size(), 3u);
  launcher->kill(0, SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(wait_until_gone(pid, seconds(2))) << pid;
}

TEST(RunRemote, ASignalToTheLauncherEndsAllRanks) {
  const RemoteShell shell(kWorks);
  const auto launcher = start_agent(shell.options(), kLastsLong, {});
  ASSERT_EQ(pids_of_three(*launcher).size(), 3u);
  launcher->kill(0, SIGTERM);
  EXPECT_EQ(launcher->wait(0), exited(128 + SIGTERM)) << launcher->err(0);
  EXPECT_TRUE(
      std::regex_search(launcher->err(0), std::regex("the launcher \\(pid \\d+ on \\S+\\) was stopped by SIGTERM")))
      << launcher->err(0);
}

TEST(RunRemote, AnAgentThatIsLostIsStartedAgainForARestart) {
  const RemoteShell shell(kWorks);
  // The agent is the parent of its ranks.
  const auto launcher = start_agent(shell.options({"--max-restarts", "1"}),
                                    "echo start $TORCHELASTIC_RESTART_COUNT; if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; "
                                    "then exit 0; fi; if [ $RANK = 2 ]; then kill -KILL $PPID; fi; exec sleep 1000",
                                    {});
  EXPECT_EQ(launcher->wait(0), exited(0)) << launcher->err(0);
  EXPECT_TRUE(std::regex_search(launcher->err(0), std::regex("node 1 \\(agent pid \\d+ on nodeb\\) was lost")))
      << launcher->err(0);
  EXPECT_NE(launcher->out(0).find("[rank 2] start 1\n"), std::string::npos) << launcher->out(0);
}

}  // namespace
}  // namespace tutti::test
