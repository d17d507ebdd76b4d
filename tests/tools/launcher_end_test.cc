// How jobs under `tutti run` end: who is blamed, with which status, and that nothing is left.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "tutti_program.h"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Each rank prints its process id and that of a child, which outlives the rank's shell unless somebody ends it.
constexpr char kRankWithChild[] = "sleep 1000 & echo pids $$ $!; wait";

std::vector<pid_t> printed_pids(Processes& launcher, std::size_t count) {
  std::vector<pid_t> pids;
  const std::regex pattern("pids (\\d+) (\\d+)");
  for (std::size_t rank = 0; rank < count / 2; ++rank) {
    EXPECT_TRUE(launcher.wait_for_output(0, "[rank " + std::to_string(rank) + "] pids"));
  }
  const std::string text = launcher.out(0);
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    pids.push_back(std::stoi((*match)[1]));
    pids.push_back(std::stoi((*match)[2]));
  }
  EXPECT_EQ(pids.size(), count) << text;
  return pids;
}

void expect_gone(const std::vector<pid_t>& pids, milliseconds limit) {
  for (const pid_t pid : pids) EXPECT_TRUE(wait_until_gone(pid, limit)) << "process " << pid << " is left";
}

TEST(LauncherEnd, AFailureIsNamedWithStatusAndLastLines) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished run =
      tutti_run({"-n", "3"}, "if [ $RANK = 1 ]; then echo first; echo 'cannot go on' >&2; exit 3; fi; sleep 1000");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  EXPECT_EQ(run.status, exited(3));
  const std::string text = run.err.substr(run.err.find("tutti run:"));
  EXPECT_TRUE(std::regex_match(first_line(text), std::regex("tutti run: rank 1 \\(pid \\d+\\) exited with status 3 "
                                                            "after \\d+\\.\\d s")))
      << run.err;
  EXPECT_NE(text.find("  last lines of rank 1:\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    | cannot go on\n"), std::string::npos) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("rank 0 \\(pid \\d+\\) was stopped with SIGTERM"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("rank 2 \\(pid \\d+\\) was stopped with SIGTERM"))) << text;
}

TEST(LauncherEnd, ASignalIsNamed) {
  const Finished run = tutti_run({"-n", "2"}, "if [ $RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 1000");
  EXPECT_EQ(run.status, exited(128 + SIGSEGV));
  EXPECT_TRUE(std::regex_search(
      run.err, std::regex("^tutti run: rank 1 \\(pid \\d+\\) was killed by SIGSEGV \\(signal 11\\) after")))
      << run.err;
}

// Rank 0 learns of rank 1's death and exits; that it may be seen to end first must not make it the culprit.
TEST(LauncherEnd, TheRankThatWasKilledIsBlamedNotTheOneThatSaidSo) {
  const Finished run =
      tutti_run({"-n", "2"}, "if [ $RANK = 0 ]; then echo 'lost rank 1' >&2; exit 1; fi; sleep 0.2; kill -KILL $$");
  EXPECT_EQ(run.status, exited(128 + SIGKILL));
  EXPECT_NE(run.err.find("tutti run: rank 1 (pid"), std::string::npos) << run.err;
}

TEST(LauncherEnd, AFrozenRankIsNamedFirst) {
  const Finished run = tutti_run(
      {"-n", "2"},
      "if [ $RANK = 1 ]; then kill -STOP $$; fi; while ! grep -q '^State:.T' /proc/*/task/*/status 2>/dev/null; do :; "
      "done; exit 4");
  EXPECT_EQ(run.status, exited(4));
  EXPECT_TRUE(std::regex_search(
      run.err, std::regex("tutti run: rank 1 \\(pid \\d+\\) was frozen .* rank 0 \\(pid \\d+\\) exited with status 4")))
      << run.err;
}

TEST(LauncherEnd, ARankThatIgnoresSigtermIsKilledAfterTheGrace) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished run = tutti_run({"-n", "2", "--grace", "0.3"},
                                 "trap '' TERM; if [ $RANK = 1 ]; then exit 5; fi; while :; do sleep 1; done");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(4));
  EXPECT_EQ(run.status, exited(5));
  EXPECT_NE(run.err.find("was stopped with SIGKILL"), std::string::npos) << run.err;
}

TEST(LauncherEnd, ACleanRankDoesNotEndTheOthers) {
  const Finished run = tutti_run({"-n", "2"}, "if [ $RANK = 1 ]; then exit 0; fi; sleep 0.3; echo done");
  EXPECT_EQ(run.status, exited(0));
  EXPECT_EQ(run.out, "[rank 0] done\n");
  EXPECT_EQ(run.err, "");
}

TEST(LauncherEnd, AKilledLauncherLeavesNothingWithinASecond) {
  Processes launcher({.command = run_command({"-n", "3"}, kRankWithChild), .count = 1, .ranks = false});
  const std::vector<pid_t> pids = printed_pids(launcher, 6);
  launcher.kill(0, SIGKILL);
  expect_gone(pids, seconds(1));
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string name_of(pid_t pid) { return first_line(content("/proc/" + std::to_string(pid) + "/comm")); }

pid_t child_named(pid_t parent, const std::string& name) {
  const std::string pid = std::to_string(parent);
  std::istringstream children(content("/proc/" + pid + "/task/" + pid + "/children"));
  for (pid_t child = 0; children >> child;) {
    if (name_of(child) == name) return child;
  }
  return -1;
}

TEST(LauncherEnd, AKilledKeeperIsReplacedAndSaidAndStillNothingIsLeft) {
  Processes launcher({.command = run_command({"-n", "2"}, kRankWithChild), .count = 1, .ranks = false});
  const std::vector<pid_t> pids = printed_pids(launcher, 4);
  EXPECT_EQ(name_of(launcher.pid(0)), "tutti-launcher");
  const pid_t keeper = child_named(launcher.pid(0), "tutti-keeper");
  ASSERT_GT(keeper, 0);
  EXPECT_STREQ(content("/proc/" + std::to_string(keeper) + "/cmdline").c_str(), "tutti-keeper");
  ::kill(keeper, SIGKILL);
  const std::string said =
      "tutti run: the keeper process (pid " + std::to_string(keeper) + ") was killed by SIGKILL; another";
  ASSERT_TRUE(launcher.wait_for_error(0, said)) << launcher.err(0);
  launcher.kill(0, SIGKILL);
  expect_gone(pids, seconds(1));
}

TEST(LauncherEnd, AProcessInASessionOfItsOwnEndsWithTheJob) {
  const Finished run = tutti_run({"-n", "2"}, "echo $(setsid -f sh -c 'echo pid $$; exec sleep 1000 >/dev/null 2>&1')");
  EXPECT_EQ(run.status, exited(0)) << run.err;
  const std::regex pattern("pid (\\d+)");
  std::vector<pid_t> pids;
  for (std::sregex_iterator match(run.out.begin(), run.out.end(), pattern), end; match != end; ++match)
    pids.push_back(std::stoi((*match)[1]));
  EXPECT_EQ(pids.size(), 2u) << run.out;
  expect_gone(pids, milliseconds(0));
}

TEST(LauncherEnd, RanksOfTuttisOwnCommandsAreNamed) {
  Processes launcher(
      {.command = {TUTTI_PROGRAM, "run", "-n", "1", "--", TUTTI_PROGRAM, "store"}, .count = 1, .ranks = false});
  ASSERT_TRUE(launcher.wait_for_output(0, "store: "));
  EXPECT_GT(child_named(launcher.pid(0), "rank 0 of 1"), 0);
}

TEST(LauncherEnd, DescriptorsForTheRanksPipesAreMadeRoomFor) {
  const auto with_limit = [](const std::string& options) {
    return run_program({"bash", "-c", "ulimit " + options + " 64; exec \"$0\" run -n 32 -- true", TUTTI_PROGRAM});
  };
  const Finished soft = with_limit("-Sn");
  EXPECT_EQ(soft.status, exited(0)) << soft.err;
  const Finished hard = with_limit("-n");
  EXPECT_EQ(hard.status, exited(1));
  EXPECT_TRUE(contains(hard.err, "open descriptors") && contains(hard.err, "hard limit 64")) << hard.err;
}

TEST(LauncherEnd, AFailureLeavesNothingOfTheOtherRanks) {
  Processes launcher({.command = run_command({"-n", "2", "--grace", "0.2"},
                                             "sleep 1000 & echo pids $$ $!; if [ $RANK = 1 ]; then exit 9; fi; wait"),
                      .count = 1,
                      .ranks = false});
  const std::vector<pid_t> pids = printed_pids(launcher, 4);
  EXPECT_EQ(launcher.wait(0), exited(9));
  expect_gone(pids, milliseconds(500));
}

TEST(LauncherEnd, EndingSignalsReachEveryRankAndGiveTheirStatus) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Processes launcher({.command = run_command({"-n", "2"}, kRankWithChild), .count = 1, .ranks = false});
    const std::vector<pid_t> pids = printed_pids(launcher, 4);
    launcher.kill(0, signal);
    // A shell ignores SIGINT and SIGQUIT for its background jobs; the grace period ends those.
    EXPECT_EQ(launcher.wait(0), exited(128 + signal)) << launcher.err(0);
    EXPECT_NE(launcher.err(0).find("tutti run: stopped by "), std::string::npos) << launcher.err(0);
    expect_gone(pids, milliseconds(500));
  }
}

TEST(LauncherEnd, RanksThatHandleSigtermEndTheJobWell) {
  Processes launcher(
      {.command = run_command({"-n", "2"}, "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"),
       .count = 1,
       .ranks = false});
  ASSERT_TRUE(launcher.wait_for_output(0, "[rank 0] ready"));
  ASSERT_TRUE(launcher.wait_for_output(0, "[rank 1] ready"));
  launcher.kill(0, SIGTERM);
  EXPECT_EQ(launcher.wait(0), exited(0)) << launcher.err(0);
  EXPECT_NE(launcher.out(0).find("[rank 0] saved\n"), std::string::npos);
  EXPECT_NE(launcher.out(0).find("[rank 1] saved\n"), std::string::npos);
}

TEST(LauncherEnd, RanksHaveTimeToWriteACheckpointAfterSigterm) {
  // More than the 2 s that ranks get after a failure or Ctrl-C.
  Processes launcher({.command = run_command({"-n", "2"},
                                             "trap 'sleep 2.3; echo saved; exit 143' TERM; echo ready; while :; do "
                                             "sleep 0.05; done"),
                      .count = 1,
                      .ranks = false});
  for (const char* line : {"[rank 0] ready", "[rank 1] ready"}) ASSERT_TRUE(launcher.wait_for_output(0, line));
  launcher.kill(0, SIGTERM);
  EXPECT_EQ(launcher.wait(0), exited(143)) << launcher.err(0);
  for (const char* line : {"[rank 0] saved\n", "[rank 1] saved\n"}) {
    EXPECT_NE(launcher.out(0).find(line), std::string::npos) << launcher.out(0);
  }
}

// `timeout` and schedulers send one request twice within moments. SIGXCPU is read after SIGTERM, its number is higher.
TEST(LauncherEnd, TheSameRequestTwiceLeavesTheRanksTheirTime) {
  Processes launcher({.command = run_command({"-n", "2"}, kSavesUntilXcpu), .count = 1, .ranks = false});
  for (const char* line : {"[rank 0] ready", "[rank 1] ready"}) ASSERT_TRUE(launcher.wait_for_output(0, line));
  launcher.kill(0, SIGTERM);
  for (const char* line : {"[rank 0] saving", "[rank 1] saving"}) ASSERT_TRUE(launcher.wait_for_output(0, line));
  launcher.kill(0, SIGTERM);
  launcher.kill(0, SIGXCPU);
  EXPECT_EQ(launcher.wait(0), exited(0)) << launcher.err(0);
  for (const char* line : {"[rank 0] saved\n", "[rank 1] saved\n"}) EXPECT_TRUE(contains(launcher.out(0), line));
}

TEST(LauncherEnd, ASecondRequestASecondLaterEndsTheRanksAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  Processes launcher({.command = run_command({"-n", "1"}, kSavesUntilXcpu), .count = 1, .ranks = false});
  ASSERT_TRUE(launcher.wait_for_output(0, "ready"));
  launcher.kill(0, SIGTERM);
  ASSERT_TRUE(launcher.wait_for_output(0, "saving"));
  std::this_thread::sleep_for(milliseconds(1050));  // what is tested is this time
  launcher.kill(0, SIGTERM);
  EXPECT_EQ(launcher.wait(0), exited(128 + SIGTERM)) << launcher.err(0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
}

TEST(LauncherEnd, UserSignalsAreForwardedAndTheJobGoesOn) {
  Processes launcher(
      {.command = run_command({"-n", "2"}, "trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.05; done"),
       .count = 1,
       .ranks = false});
  ASSERT_TRUE(launcher.wait_for_output(0, "[rank 0] ready"));
  ASSERT_TRUE(launcher.wait_for_output(0, "[rank 1] ready"));
  launcher.kill(0, SIGUSR1);
  EXPECT_EQ(launcher.wait(0), exited(0)) << launcher.err(0);
  EXPECT_NE(launcher.out(0).find("[rank 0] got it\n"), std::string::npos);
  EXPECT_NE(launcher.out(0).find("[rank 1] got it\n"), std::string::npos);
}

TEST(LauncherEnd, EverySignalThatOthersSendIsForwarded) {
  std::vector<int> signals{SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ, SIGPWR, SIGIO, SIGURG, SIGWINCH};
  signals.insert(signals.end(), {SIGRTMIN, SIGRTMAX});
  std::string script = "import signal,time\ngot=set()\n";
  for (const int signal : signals) script += "signal.signal(" + std::to_string(signal) + ",lambda s,f: got.add(s))\n";
  script += "print('ready',flush=True)\nwhile len(got)<" + std::to_string(signals.size()) + ": time.sleep(0.01)\n";
  Processes launcher(
      {.command = {TUTTI_PROGRAM, "run", "-n", "2", "--", "python3", "-c", script}, .count = 1, .ranks = false});
  for (const char* line : {"[rank 0] ready", "[rank 1] ready"}) ASSERT_TRUE(launcher.wait_for_output(0, line));
  for (const int signal : signals) launcher.kill(0, signal);
  EXPECT_EQ(launcher.wait(0), exited(0)) << launcher.err(0);
}

TEST(LauncherEnd, AForwardedSignalThatNobodyHandlesIsNamed) {
  Processes launcher({.command = run_command({"-n", "2"}, "echo ready; exec sleep 1000"), .count = 1, .ranks = false});
  for (const char* line : {"[rank 0] ready", "[rank 1] ready"}) ASSERT_TRUE(launcher.wait_for_output(0, line));
  launcher.kill(0, SIGUSR1);
  EXPECT_EQ(launcher.wait(0), exited(128 + SIGUSR1));
  EXPECT_NE(launcher.err(0).find("was killed by SIGUSR1"), std::string::npos) << launcher.err(0);
  EXPECT_NE(launcher.err(0).find("passed it on to all ranks"), std::string::npos) << launcher.err(0);
}

TEST(LauncherEnd, WhatTheOthersSaidLastIsQuoted) {
  const Finished run = tutti_run(
      {"-n", "2"}, "if [ $RANK = 1 ]; then sleep 0.3; exit 3; fi; echo waiting in all_reduce; exec sleep 1000");
  EXPECT_TRUE(std::regex_search(
      run.err, std::regex("rank 0 \\(pid \\d+\\) was stopped .*; its last line: waiting in all_reduce\n")))
      << run.err;
}

// What the C++ runtime prints: every rank tells the first cause.
TEST(LauncherEnd, AnErrorThatNobodyCaughtIsToldOnce) {
  const Finished run = tutti_run(
      {"-n", "3"},
      "ulimit -c 0; text='sums differ'; test $RANK = 2 || text=\"rank $RANK/3: aborted; first cause: $text\"; echo "
      "\"terminate called after throwing an instance of 'tutti::comm::Error'\" >&2; echo \"  what():  $text\" >&2; "
      "kill -ABRT $$; sleep 1000");
  EXPECT_EQ(run.status, exited(128 + SIGABRT));
  for (const char* once : {"terminate called", "sums differ", "that it did not catch"}) {
    const std::size_t first = run.err.find(once);
    EXPECT_NE(first, std::string::npos) << run.err;
    EXPECT_EQ(run.err.find(once, first + 1), std::string::npos) << once << " stands twice in\n" << run.err;
  }
  EXPECT_FALSE(contains(run.err, "core dump")) << run.err;
}

TEST(LauncherEnd, RanksThatWaitForOneThatHasEndedAreTold) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished run =
      run_program({"sh", "-c", "exec \"$0\" run -n 2 -- sh -c 'test $RANK = 1 || exec \"$0\" bench barrier' \"$0\"",
                   TUTTI_PROGRAM});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
  EXPECT_EQ(run.status, exited(1)) << run.err;
  EXPECT_TRUE(std::regex_search(
      run.err, std::regex("lost rank 1: rank 1 \\(pid \\d+\\) exited with status 0 after .* s, before it had joined")))
      << run.err;
}

TEST(LauncherEnd, AMissingProgramIsStatus127) {
  const Finished run = run_program({TUTTI_PROGRAM, "run", "-n", "2", "--", "no-such-program"});
  EXPECT_EQ(run.status, exited(127));
  EXPECT_EQ(run.err, "tutti run: cannot execute 'no-such-program': No such file or directory (errno 2)\n");
}

TEST(LauncherEnd, AFileThatIsNoProgramIsStatus126) {
  const Finished run = run_program({TUTTI_PROGRAM, "run", "-n", "2", "--", "/etc/passwd"});
  EXPECT_EQ(run.status, exited(126));
  EXPECT_EQ(run.err, "tutti run: cannot execute '/etc/passwd': Permission denied (errno 13)\n");
}

TEST(LauncherEnd, ATakenPortIsNamed) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const Finished run = tutti_run({"-n", "2", "--master-port", port}, "echo started");
  EXPECT_EQ(run.status, exited(1));
  EXPECT_EQ(run.out, "");
  EXPECT_NE(first_line(run.err).find(port), std::string::npos) << run.err;
  EXPECT_NE(first_line(run.err).find("pid " + std::to_string(::getpid())), std::string::npos) << run.err;
  ::close(listener);
}

TEST(LauncherEnd, RestartsAllRanksUntilTheySucceed) {
  const Finished run = tutti_run({"-n", "2", "--max-restarts", "2"},
                                 "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
                                 "if [ $RANK = 1 ]; then exit $((2-TORCHELASTIC_RESTART_COUNT)); fi");
  EXPECT_EQ(run.status, exited(0));
  for (const char* line : {"[rank 0] try 0 of 2\n", "[rank 1] try 1 of 2\n", "[rank 0] try 2 of 2\n"}) {
    EXPECT_NE(run.out.find(line), std::string::npos) << run.out;
  }
  EXPECT_NE(run.err.find("restart 2 of at most 2"), std::string::npos) << run.err;
}

TEST(LauncherEnd, GivesUpAfterTheLastRestart) {
  const Finished run = tutti_run({"-n", "1", "--max-restarts", "1"}, "exit 6");
  EXPECT_EQ(run.status, exited(6));
}

}  // namespace
}  // namespace tutti::test
