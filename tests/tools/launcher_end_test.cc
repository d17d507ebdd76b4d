// How jobs under `tutti run` end: who is blamed, with which status, and that nothing is left.

#include <gtest/gtest.h>
#include <tutti/comm/store/listen.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Each rank prints its process id and that of a child, which outlives the rank's shell unless somebody ends it.
constexpr char kRankWithChild[] = "sleep 1000 & echo pid $$; echo child pid $!; wait";

std::vector<pid_t> printed_pids(Running& launcher, int ranks) {
  EXPECT_TRUE(launcher.ranks_print(ranks, "child pid "));
  const std::vector<pid_t> pids = numbers_after(launcher.out(), "pid ");
  EXPECT_EQ(pids.size(), 2U * static_cast<unsigned>(ranks)) << launcher.out();
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
  expect_match(first_line(text), "^tutti run: rank 1 \\(pid \\d+\\) exited with status 3 after \\d+\\.\\d s$");
  expect_parts(text, {"  last lines of rank 1:\n", "    | cannot go on\n"});
  expect_match(text, "rank 0 \\(pid \\d+\\) was stopped with SIGTERM");
  expect_match(text, "rank 2 \\(pid \\d+\\) was stopped with SIGTERM");
}

// Rank 0 learns of rank 1's death and exits; that it may be seen to end first must not make it the culprit.
TEST(LauncherEnd, TheRankThatWasKilledIsBlamedNotTheOneThatSaidSo) {
  const Finished run =
      tutti_run({"-n", "2"}, "if [ $RANK = 0 ]; then echo 'lost rank 1' >&2; exit 1; fi; sleep 0.2; kill -SEGV $$");
  EXPECT_EQ(run.status, exited(128 + SIGSEGV));
  expect_match(run.err, "tutti run: rank 1 \\(pid \\d+\\) was killed by SIGSEGV \\(signal 11\\) after");
}

TEST(LauncherEnd, AFrozenRankIsNamedFirst) {
  const TestFolder folder;
  const Finished run =
      tutti_run({"-n", "2"},
                "cd " + folder.path().string() +
                    "; if [ $RANK = 1 ]; then echo $$ > pid; kill -STOP $$; fi; "
                    "while ! grep -q '^State:.T' /proc/$(cat pid 2>/dev/null)/status 2>/dev/null; do :; done; exit 4");
  EXPECT_EQ(run.status, exited(4));
  expect_match(run.err, "tutti run: rank 1 \\(pid \\d+\\) was frozen .* rank 0 \\(pid \\d+\\) exited with status 4");
}

TEST(LauncherEnd, ARankThatIgnoresSigtermIsKilledAfterTheGrace) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished run = tutti_run({"-n", "2", "--grace", "0.3"},
                                 "trap '' TERM; if [ $RANK = 1 ]; then exit 5; fi; while :; do sleep 1; done");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(4));
  expect_failure(run, 5, {"was stopped with SIGKILL"});
}

TEST(LauncherEnd, ACleanRankDoesNotEndTheOthers) {
  const Finished run = tutti_run({"-n", "2"}, "if [ $RANK = 1 ]; then exit 0; fi; sleep 0.3; echo done");
  EXPECT_EQ(run.status, exited(0));
  EXPECT_EQ(run.out, "[rank 0] done\n");
  EXPECT_EQ(run.err, "");
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

TEST(LauncherEnd, AKilledLauncherLeavesNothingWithinASecond) {
  Running launcher(run_command({"-n", "3"}, kRankWithChild));
  const std::vector<pid_t> pids = printed_pids(launcher, 3);
  launcher.kill(SIGKILL);
  expect_gone(pids, seconds(1));
}

// A name of its own: to kill the launcher by its name or command line is not to kill the keeper with it.
TEST(LauncherEnd, AKilledKeeperIsReplacedAndSaidAndStillNothingIsLeft) {
  Running launcher(run_command({"-n", "2"}, kRankWithChild));
  const std::vector<pid_t> pids = printed_pids(launcher, 2);
  EXPECT_EQ(name_of(launcher.pid()), "tutti-launcher");
  const pid_t keeper = child_named(launcher.pid(), "tutti-keeper");
  ASSERT_GT(keeper, 0);
  EXPECT_STREQ(content("/proc/" + std::to_string(keeper) + "/cmdline").c_str(), "tutti-keeper");
  ::kill(keeper, SIGKILL);
  const std::string said =
      "tutti run: the keeper process (pid " + std::to_string(keeper) + ") was killed by SIGKILL; another";
  ASSERT_TRUE(launcher.complains(said)) << launcher.err();
  launcher.kill(SIGKILL);
  expect_gone(pids, seconds(1));
}

TEST(LauncherEnd, AProcessInASessionOfItsOwnEndsWithTheJob) {
  const Finished run = tutti_run({"-n", "2"}, "echo $(setsid -f sh -c 'echo pid $$; exec sleep 1000 >/dev/null 2>&1')");
  expect_success(run);
  const std::vector<pid_t> pids = numbers_after(run.out, "pid ");
  EXPECT_EQ(pids.size(), 2u) << run.out;
  expect_gone(pids, milliseconds(0));
}

TEST(LauncherEnd, RanksOfTuttisOwnCommandsAreNamed) {
  Running launcher({TUTTI_PROGRAM, "run", "-n", "1", "--", TUTTI_PROGRAM, "store"});
  ASSERT_TRUE(launcher.prints("store: "));
  EXPECT_GT(child_named(launcher.pid(), "rank 0 of 1"), 0);
}

TEST(LauncherEnd, DescriptorsForTheRanksPipesAreMadeRoomFor) {
  const auto with_limit = [](const std::string& options) {
    return run_program({"bash", "-c", "ulimit " + options + " 64; exec \"$0\" run -n 32 -- true", TUTTI_PROGRAM});
  };
  const Finished soft = with_limit("-Sn");
  EXPECT_EQ(soft.status, exited(0)) << soft.err;
  expect_failure(with_limit("-n"), 1, {"open descriptors", "hard limit 64"});
}

TEST(LauncherEnd, AFailureLeavesNothingOfTheOtherRanks) {
  Running launcher(run_command({"-n", "2", "--grace", "0.2"},
                               "sleep 1000 & echo pid $$; echo child pid $!; if [ $RANK = 1 ]; then exit 9; fi; wait"));
  const std::vector<pid_t> pids = printed_pids(launcher, 2);
  launcher.expect_end(9);
  expect_gone(pids, milliseconds(500));
}

TEST(LauncherEnd, EndingSignalsReachEveryRankAndGiveTheirStatus) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Running launcher(run_command({"-n", "2"}, kRankWithChild));
    const std::vector<pid_t> pids = printed_pids(launcher, 2);
    launcher.kill(signal);
    // A shell ignores SIGINT and SIGQUIT for its background jobs; the grace period ends those.
    launcher.expect_end(128 + signal);
    expect_parts(launcher.err(), {"tutti run: stopped by "});
    expect_gone(pids, milliseconds(500));
  }
}

/// Two ranks that set their traps, say that they are ready, and get the signal; the job ends with `status`.
Finished signalled(const std::string& traps, int signal, int status) {
  Running launcher(run_command({"-n", "2"}, traps + "echo ready; while :; do sleep 0.05; done"));
  EXPECT_TRUE(launcher.ranks_print(2, "ready"));
  launcher.kill(signal);
  launcher.expect_end(status);
  return {exited(status), launcher.out(), launcher.err()};
}

TEST(LauncherEnd, RanksThatHandleSigtermEndTheJobWell) {
  expect_parts(signalled("trap 'echo saved; exit 0' TERM; ", SIGTERM, 0).out, {"[rank 0] saved\n", "[rank 1] saved\n"});
}

TEST(LauncherEnd, RanksHaveTimeToWriteACheckpointAfterSigterm) {
  // More than the 2 s that ranks get after a failure or Ctrl-C.
  expect_parts(signalled("trap 'sleep 2.3; echo saved; exit 143' TERM; ", SIGTERM, 143).out,
               {"[rank 0] saved\n", "[rank 1] saved\n"});
}

TEST(LauncherEnd, UserSignalsAreForwardedAndTheJobGoesOn) {
  expect_parts(signalled("trap 'echo got it; exit 0' USR1; ", SIGUSR1, 0).out,
               {"[rank 0] got it\n", "[rank 1] got it\n"});
}

TEST(LauncherEnd, AForwardedSignalThatNobodyHandlesIsNamed) {
  expect_parts(signalled("", SIGUSR1, 128 + SIGUSR1).err, {"was killed by SIGUSR1", "passed it on to all ranks"});
}

// `timeout` and schedulers send one request twice within moments. SIGXCPU is read after SIGTERM, its number is higher.
TEST(LauncherEnd, TheSameRequestTwiceLeavesTheRanksTheirTime) {
  Running launcher(run_command({"-n", "2"}, kSavesUntilXcpu));
  ASSERT_TRUE(launcher.ranks_print(2, "ready"));
  launcher.kill(SIGTERM);
  ASSERT_TRUE(launcher.ranks_print(2, "saving"));
  launcher.kill(SIGTERM);
  launcher.kill(SIGXCPU);
  launcher.expect_end(0);
  expect_parts(launcher.out(), {"[rank 0] saved\n", "[rank 1] saved\n"});
}

TEST(LauncherEnd, ASecondRequestASecondLaterEndsTheRanksAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  Running launcher(run_command({"-n", "1"}, kSavesUntilXcpu));
  ASSERT_TRUE(launcher.prints("ready"));
  launcher.kill(SIGTERM);
  ASSERT_TRUE(launcher.prints("saving"));
  std::this_thread::sleep_for(milliseconds(1050));  // what is tested is this time
  launcher.kill(SIGTERM);
  launcher.expect_end(128 + SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
}

TEST(LauncherEnd, EverySignalThatOthersSendIsForwarded) {
  std::vector<int> signals{SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ, SIGPWR, SIGIO, SIGURG, SIGWINCH};
  signals.insert(signals.end(), {SIGRTMIN, SIGRTMAX});
  std::string script = "import signal,time\ngot=set()\n";
  for (const int signal : signals) script += "signal.signal(" + std::to_string(signal) + ",lambda s,f: got.add(s))\n";
  script += "print('ready',flush=True)\nwhile len(got)<" + std::to_string(signals.size()) + ": time.sleep(0.01)\n";
  Running launcher({TUTTI_PROGRAM, "run", "-n", "2", "--", "python3", "-c", script});
  ASSERT_TRUE(launcher.ranks_print(2, "ready"));
  for (const int signal : signals) launcher.kill(signal);
  launcher.expect_end(0);
}

TEST(LauncherEnd, WhatTheOthersSaidLastIsQuoted) {
  const Finished run = tutti_run(
      {"-n", "2"}, "if [ $RANK = 1 ]; then sleep 0.3; exit 3; fi; echo waiting in all_reduce; exec sleep 1000");
  expect_match(run.err, "rank 0 \\(pid \\d+\\) was stopped .*; its last line: waiting in all_reduce\n");
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
    expect_parts(run.err, {once});
    EXPECT_EQ(run.err.find(once), run.err.rfind(once)) << once << " stands twice in\n" << run.err;
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
  expect_match(run.err, "lost rank 1: rank 1 \\(pid \\d+\\) exited with status 0 after .* s, before it had joined");
}

TEST(LauncherEnd, AProgramThatCannotBeExecutedIsStatus127Or126) {
  const auto expect = [](const std::string& program, int status, const std::string& why) {
    const Finished run = tutti({"run", "-n", "2", "--", program});
    EXPECT_EQ(run.status, exited(status));
    EXPECT_EQ(run.err, "tutti run: cannot execute '" + program + "': " + why + "\n");
  };
  expect("no-such-program", 127, "No such file or directory (errno 2)");
  expect("/etc/passwd", 126, "Permission denied (errno 13)");
  expect("/etc", 126, "Is a directory (errno 21)");
}

TEST(LauncherEnd, ATakenPortIsNamed) {
  const comm::Socket listener = comm::listen_on("127.0.0.1", 0);
  const std::string port = std::to_string(comm::local_endpoint(listener.get()).port());
  const Finished run = tutti_run({"-n", "2", "--master-port", port}, "echo started");
  EXPECT_EQ(run.status, exited(1));
  EXPECT_EQ(run.out, "");
  expect_parts(first_line(run.err), {port, "pid " + std::to_string(::getpid())});
}

TEST(LauncherEnd, RestartsAllRanksUntilTheySucceed) {
  const Finished run = tutti_run({"-n", "2", "--max-restarts", "2"},
                                 "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
                                 "if [ $RANK = 1 ]; then exit $((2-TORCHELASTIC_RESTART_COUNT)); fi");
  expect_success(run, {"[rank 0] try 0 of 2\n", "[rank 1] try 1 of 2\n", "[rank 0] try 2 of 2\n"});
  expect_parts(run.err, {"restart 2 of at most 2"});
}

}  // namespace
}  // namespace tutti::test
