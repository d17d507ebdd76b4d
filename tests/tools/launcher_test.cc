// What ranks get from `tutti run`, and what their output becomes.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "tutti_program.h"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;
using testing::TempDir;

TEST(Launcher, GivesEachRankTorchrunsVariables) {
  const Finished run =
      tutti_run({"-n", "2"},
                "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "
                "$MASTER_ADDR $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS "
                "$TORCHELASTIC_USE_AGENT_STORE ${#TUTTI_JOB_SECRET}; test \"$MASTER_PORT\" -gt 1023 && "
                "test \"$OMP_NUM_THREADS\" -ge 1 && test \"$TUTTI_JOB_ID\" = \"$TORCHELASTIC_RUN_ID\"");
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_EQ(sorted_lines(run.out),
            (Words{"[rank 0] 0/2 0/2 0/1 127.0.0.1 0/0 True 64", "[rank 1] 1/2 1/2 0/1 127.0.0.1 0/0 True 64"}));
  EXPECT_EQ(run.err, "");
}

TEST(Launcher, KeepsTheUsersOmpNumThreads) {
  EXPECT_EQ(tutti_run({"-n", "1"}, "echo $OMP_NUM_THREADS", {"OMP_NUM_THREADS=7"}).out, "7\n");
}

TEST(Launcher, StandardErrorGoesToStandardErrorAndIsLabelledToo) {
  const Finished run = tutti_run({"-n", "2"}, "echo out; echo err >&2");
  EXPECT_EQ(sorted_lines(run.out), (Words{"[rank 0] out", "[rank 1] out"}));
  EXPECT_EQ(sorted_lines(run.err), (Words{"[rank 0] err", "[rank 1] err"}));
}

TEST(Launcher, OneRankHasNoLabelAndItsBytesAreUntouched) {
  EXPECT_EQ(tutti_run({"-n", "1"}, "printf 'a\\r\\nb\\rc'").out, "a\r\nb\rc");
}

TEST(Launcher, TheLastLineIsShownEvenIfItDoesNotEnd) {
  const Finished run = tutti_run({"-n", "2"}, "printf 'no end'");
  EXPECT_EQ(sorted_lines(run.out), (Words{"[rank 0] no end", "[rank 1] no end"}));
  EXPECT_TRUE(run.out.ends_with("\n"));
}

TEST(Launcher, AThousandLinesOfFourRanksStayWholeAndInOrder) {
  const Finished run =
      tutti_run({"-n", "4"}, "i=0; while [ $i -lt 1000 ]; do printf \"line $i \"; echo of $RANK; i=$((i+1)); done");
  ASSERT_EQ(run.status, exited(0));
  std::map<char, int> next;
  for (const std::string& line : lines_of(run.out)) {
    const char rank = line.at(6);
    ASSERT_EQ(line, std::string("[rank ") + rank + "] line " + std::to_string(next[rank]) + " of " + rank);
    ++next[rank];
  }
  EXPECT_EQ(next, (std::map<char, int>{{'0', 1000}, {'1', 1000}, {'2', 1000}, {'3', 1000}}));
}

// Reads `fd` to its end in small bites, pausing until the writer has had a chance to fill the pipe.
std::size_t read_slowly(int fd) {
  std::size_t total = 0;
  char bytes[4096];
  for (ssize_t count = 1; count > 0;) {
    pollfd none{-1, 0, 0};
    if (total < 100 * sizeof(bytes)) ::poll(&none, 1, 1);
    count = ::read(fd, bytes, sizeof(bytes));
    if (count > 0) total += static_cast<std::size_t>(count);
  }
  return total;
}

// The launcher's standard output is a full pipe in non-blocking mode: EAGAIN must not end it, nor cost a byte.
TEST(Launcher, ASlowReaderOnANonBlockingPipeGetsEverything) {
  const std::string fifo = TempDir() + "/tutti_slow_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  // Python opens the pipe non-blocking and becomes the launcher, whose standard output it then is.
  const std::string script =
      "import os,sys\n"
      "fd=os.open(sys.argv[1],os.O_WRONLY|os.O_NONBLOCK)\n"
      "os.dup2(fd,1)\n"
      "os.execv(sys.argv[2],sys.argv[2:])\n";
  Running launcher(joined({"python3", "-c", script, fifo},
                          run_command({"-n", "2", "--no-label"}, "head -c 3000000 /dev/zero | tr '\\0' x")));
  pollfd ready{reader, POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
  ::fcntl(reader, F_SETFL, 0);
  // Lines are cut at 64 KiB; each of the 2 x 46 pieces ends with a newline of its own.
  const std::size_t expected = 2 * (3'000'000 + (3'000'000 + 65'535) / 65'536);
  EXPECT_EQ(read_slowly(reader), expected);
  launcher.expect_end(0);
  ::close(reader);
  std::filesystem::remove(fifo);
}

TEST(Launcher, AClosedOutputEndsARankThatWritesOn) {
  // As without a launcher: `yes | head -1` ends, because yes gets SIGPIPE.
  const Finished run = run_program(
      {"bash", "-c", "set -o pipefail; \"$0\" run -n 2 -- yes 2>/dev/null | head -1 >/dev/null", TUTTI_PROGRAM});
  EXPECT_EQ(run.status, exited(128 + SIGPIPE));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The fastest of some runs: other programs may hold the processors meanwhile. bench/start_up prints the figures.
milliseconds fastest(const std::vector<std::string>& command, milliseconds goal, int rounds) {
  milliseconds best = milliseconds::max();
  for (int round = 0; round < rounds && best >= goal; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const Finished run = run_program(command);
    best = std::min(best, std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - begin));
    EXPECT_EQ(run.status, exited(0)) << run.err;
  }
  return best;
}

TEST(LauncherSpeed, TwoRanksThatDoNothingTakeLessThan50Ms) {
  if (kSanitized) GTEST_SKIP() << "sanitizers slow the start down";
  EXPECT_LT(fastest({TUTTI_PROGRAM, "run", "-n", "2", "true"}, milliseconds(50), 40), milliseconds(50));
}

TEST(LauncherSpeed, SixtyFourRanksPassTheirFirstBarrierInLessThan3S) {
  if (kSanitized) GTEST_SKIP() << "sanitizers slow the start down";
  const std::vector<std::string> command{TUTTI_PROGRAM, "run",     "-n",           "64", "--",       TUTTI_PROGRAM,
                                         "bench",       "barrier", "--iterations", "1",  "--warmup", "0"};
  EXPECT_LT(fastest(command, milliseconds(3000), 5), milliseconds(3000));
}

TEST(Launcher, UsersOpenDescriptorsReachTheRanksAndNoOthersDo) {
  const Finished direct = run_program({"bash", "-c", "exec 7</dev/null; ls /proc/self/fd"});
  const Finished run =
      run_program({"bash", "-c", "exec 7</dev/null; \"$0\" run -n 1 -- ls /proc/self/fd", TUTTI_PROGRAM});
  EXPECT_EQ(run.out, direct.out) << run.err;
  expect_parts(run.out, {"7\n"});
}

TEST(Launcher, WithoutAStoreTheMasterPortIsFreeForRankZero) {
  // What PyTorch's env:// does: rank 0 listens on MASTER_PORT, on all addresses.
  const std::string script =
      "import os,socket\n"
      "s=socket.socket()\n"
      "s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n"
      "s.bind(('',int(os.environ['MASTER_PORT'])))\n"
      "s.listen()\n"
      "print('listening', os.environ.get('TORCHELASTIC_USE_AGENT_STORE'))\n";
  // The kernel may give a reserved port to another socket that has SO_REUSEADDR and asks for any port; with thousands
  // of sockets a second on this host that happens, so that one lost port proves nothing.
  Finished run;
  for (int attempt = 0; attempt < 3 && run.out.empty(); ++attempt)
    run = tutti({"run", "-n", "1", "--no-store", "--", "python3", "-c", script});
  EXPECT_EQ(run.out, "listening None\n") << run.err;
}

}  // namespace
}  // namespace tutti::test
