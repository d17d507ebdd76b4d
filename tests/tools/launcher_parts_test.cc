#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tools/run/output.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/report.h>
#include <tutti/tools/run/signals.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;
using Lines = std::vector<std::string>;

RankEnd ended(int rank, int at_ms, int code, bool by_signal = false, std::set<int> sent = {}) {
  RankEnd end;
  end.rank = rank;
  end.pid = 100 + rank;
  end.ended = end.started + milliseconds(at_ms);
  end.running = false;
  end.by_signal = by_signal;
  end.code = code;
  end.sent = std::move(sent);
  return end;
}

TEST(Report, TheCulprit) {
  const struct {
    const char* why;
    std::vector<RankEnd> ends;
    std::optional<int> culprit;
  } cases[] = {
      {"the first failure", {ended(0, 900, 1), ended(1, 800, 2), ended(2, 10, 0)}, 1},
      {"nobody when all is well or stopped by us", {ended(0, 5, 0), ended(1, 5, SIGTERM, true, {SIGTERM})}, {}},
      {"a foreign signal within the settle time", {ended(0, 100, 1), ended(1, 1500, SIGKILL, true)}, 1},
      {"the exit, as the signal came later", {ended(0, 100, 1), ended(1, 1700, SIGKILL, true)}, 0},
      {"not a signal that we sent", {ended(0, 100, 1), ended(1, 200, SIGKILL, true, {SIGTERM, SIGKILL})}, 0},
      {"another signal than the one we sent", {ended(0, 100, 1), ended(1, 200, SIGSEGV, true, {SIGTERM})}, 1},
  };
  for (const auto& c : cases) EXPECT_EQ(find_culprit(c.ends), c.culprit) << c.why;
}

TEST(Report, SentencesHintsAndTheShellsExitStatus) {
  EXPECT_EQ(describe(ended(1, 3240, SIGKILL, true)), "rank 1 (pid 101) was killed by SIGKILL (signal 9) after 3.2 s");
  EXPECT_EQ(describe(ended(1, 3240, 3)), "rank 1 (pid 101) exited with status 3 after 3.2 s");
  EXPECT_EQ(describe(ended(1, 3240, SIGTERM, true, {SIGTERM})),
            "rank 1 (pid 101) was stopped with SIGTERM after 3.2 s");
  EXPECT_EQ(ended(0, 1, SIGKILL, true).exit_status(), 137);
  EXPECT_EQ(ended(0, 1, 3).exit_status(), 3);
  test::expect_parts(hint(ended(0, 1, 139)), {"SIGSEGV"});  // a shell's status for a killed program
  EXPECT_EQ(hint(ended(0, 1, 1)), "");
}

/// Lines that the next one replaces end in '~' here.
Lines split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  Lines lines;
  const auto collect = [&](std::string_view line, bool live) {
    lines.push_back(std::string(line) + (live ? "~" : ""));
  };
  for (const std::string& piece : pieces) splitter.feed(piece, collect);
  splitter.finish(collect);
  return lines;
}

TEST(LineSplitter, JoinsPiecesAndTreatsCarriageReturnsAsLineEnds) {
  const std::pair<Lines, Lines> cases[] = {{{"a", "b\nc", "\n", "\nd"}, {"ab", "c", "", "d"}},
                                           {{"a\n"}, {"a"}},
                                           {{}, {}},
                                           {{"a\r\nb\r", "\nc"}, {"a", "b", "c"}},
                                           {{"\r10%\r20%\n"}, {"10%~", "20%"}},
                                           {{"10%\r", "\r20%\r\r", "30%\r"}, {"10%~", "20%~", "30%~"}},
                                           {{"\r", "\n\r\n"}, {"", ""}}};
  for (const auto& [pieces, lines] : cases) EXPECT_EQ(split(pieces), lines);
}

TEST(LineSplitter, CutsALineThatDoesNotEnd) {
  const std::string big(LineSplitter::kMaxLine + 5, 'x');
  const Lines lines = split({big});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].size(), LineSplitter::kMaxLine);
  EXPECT_EQ(lines[1], "xxxxx");
}

// As CUDA's driver makes them in a launcher that asks it for the GPUs.
TEST(SignalGuard, ThreadsThatWereThereBeforeTakeNoSignalAway) {
  std::promise<void> end;
  std::thread other([&] { end.get_future().wait(); });
  {
    SignalGuard guard;
    for (const int signal : {SIGCHLD, SIGUSR1, SIGRTMIN + 1}) {
      ::kill(::getpid(), signal);
      pollfd readable{.fd = guard.fd(), .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&readable, 1, 10'000), 1) << signal_name(signal) << " was lost";
      EXPECT_EQ(guard.next(), signal);
    }
  }
  end.set_value();
  other.join();
}

TEST(Spawn, AScriptWithoutInterpreterLineRunsInAShell) {
  const std::string script = testing::TempDir() + "/tutti_script_" + std::to_string(::getpid());
  std::ofstream(script) << "echo from a script with $1\n";
  ::chmod(script.c_str(), 0755);
  const test::Finished run = test::run_program({TUTTI_PROGRAM, "run", "-n", "1", "--", script, "words"});
  EXPECT_EQ(run.out, "from a script with words\n");
  std::filesystem::remove(script);
}

TEST(RankEnvironment, ExtraWinsAndAnOuterLaunchersStoreIsRemoved) {
  ::setenv("TUTTI_STORE", "tcp://outer:1", 1);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  const auto environment = rank_environment(JobEnvironment{}, 0, {"RANK=5", "MINE=a=b"});
  ::unsetenv("TUTTI_STORE");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "RANK=5"), 1);
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "MINE=a=b"), 1);
  for (const std::string& entry : environment)
    EXPECT_FALSE(entry.starts_with("TUTTI_STORE=") || entry.starts_with("TORCHELASTIC_USE_AGENT_STORE=")) << entry;
}

TEST(RankEnvironment, JobIdsDiffer) { EXPECT_NE(new_job_id(), new_job_id()); }

}  // namespace
}  // namespace tutti::tools
