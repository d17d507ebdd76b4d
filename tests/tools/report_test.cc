#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/run/report.h>

#include <vector>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;

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

}  // namespace
}  // namespace tutti::tools
