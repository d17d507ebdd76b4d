// `tutti report`, `tutti evaluate` and `tutti compare` as their users see them.
#include <signal.h>
#include <tutti/tests/trainer/small_run.h>
#include <tutti/trainer/report/step_records.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using test::Finished;
using test::Processes;

class RunCommands : public TuttiCommand {
 protected:
  RunCommands() { write_small_mnist(folder_ / "mnist", 480, 100); }

  Finished tutti(const Words& words) const { return run(joined({TUTTI_PROGRAM}, words)); }
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read_whole_file(folder_ / name)); }
  Words training(const std::string& run, const Words& more) const {
    return joined({"train", "mnist", "--data", path("mnist"), "--threads", "1", "--run-dir", path(run)}, more);
  }
};

TEST_F(RunCommands, ReportEvaluateAndCompareARun) {
  ended(kDone, tutti(training("a", {"--epochs", "2", "--nproc", "2", "--trace", path("a/trace.json")})));
  ended(kDone, tutti(training("b", {"--epochs", "2", "--nproc", "2"})));

  const Finished report = ended(kDone, tutti({"report", path("a")}));
  EXPECT_EQ(report.out, "written to " + path("a/report.html") + "\n");
  const std::string html = read_whole_file(path("a/report.html"));
  test::expect_parts(html, {"\"trace\":{\"count\":", "\"spans\":[{\"rank\":"});
  const Finished elsewhere = ended(kDone, tutti({"report", path("b"), "--output", path("page.html")}));
  EXPECT_EQ(elsewhere.out, "written to " + path("page.html") + "\n") << "a trace that was not asked for is not missed";

  const auto trained = json("a/report.json");
  for (const char* nproc : {"1", "3"}) {
    const Finished evaluated = ended(
        kDone, tutti({"evaluate", path("a"), "--nproc", nproc, "--csv", path("c.csv"), "--json", path("e.json")}));
    EXPECT_EQ(json("e.json")["confusion_matrix"], trained["confusion_matrix"]) << nproc;
    char accuracy[40];
    std::snprintf(accuracy, sizeof accuracy, "test accuracy %.4f", trained["final_test_accuracy"].get<double>());
    test::expect_parts(evaluated.out, {accuracy, "actual \\ predicted"});
    EXPECT_EQ(read_whole_file(path("c.csv")).rfind("actual,0,1,2,3,4,5,6,7,8,9\r\n0,", 0), 0u);
  }

  const Finished same = ended(kDone, tutti({"compare", path("a"), path("b")}));
  EXPECT_EQ(same.out.substr(same.out.size() - 6), "equal\n");
  ended(kDone, tutti(training("c", {"--epochs", "2", "--nproc", "2", "--lr", "0.002"})));
  const Finished other = ended(kFailed, tutti({"compare", path("a"), path("c")}));
  test::expect_parts(other.out, {"option lr: 0.001 in A, 0.002 in B\n", "are of step 1 (epoch 1, step 1) on rank 0"});
}

TEST_F(RunCommands, ARunOnGeneratedDataIsEvaluatedOnIt) {
  ended(kDone, tutti({"train", "mnist", "--epochs", "1", "--threads", "1", "--run-dir", path("drawn")}));
  const Finished evaluated = ended(kDone, tutti({"evaluate", path("drawn")}));
  test::expect_parts(evaluated.out, {"[generated digits test]"});
}

TEST_F(RunCommands, WrongUsageIsOneClearSentence) {
  expect_refusals({
      {{"report"}, 2, "RUN_DIR"},
      {{"report", path("nowhere")}, 1, "tutti report: " + path("nowhere") + " is no folder"},
      {{"report", path("mnist")}, 1, "no run has written into " + path("mnist")},
      {{"evaluate"}, 2, "CHECKPOINT"},
      {{"evaluate", path("mnist"), "--nproc", "0"}, 2, "--nproc 0: must be between 1 and 4096"},
      {{"evaluate", path("mnist"), "--threads", "-1"}, 2, "--threads: Value -1 not in range 0 to 1024"},
      {{"evaluate", path("mnist")}, 1, "there is no checkpoint in " + path("mnist")},
      {{"evaluate", path("mnist"), "--nproc", "2"}, 1, "there is no checkpoint in " + path("mnist")},
      {{"compare", path("mnist")}, 2, "RUN_B"},
      {{"compare", path("mnist"), path("nowhere")}, 2, "no run has written into " + path("mnist")},
      {{"compare", path("a"), path("b"), "--tolerance", "-1"}, 2, "--tolerance: must be at least 0"},
      {{"compare", path("a"), path("b"), "--tolerance", "x"}, 2, "--tolerance"},
  });
}

TEST_F(RunCommands, AKilledRunCanBeReadAndReported) {
  Processes ranks(ranks_of(joined({TUTTI_PROGRAM}, training("killed", {"--epochs", "1000000"}))));
  ASSERT_TRUE(ranks.wait_for_output(0, "epoch 3/")) << ranks.err(0);
  ranks.kill(1, SIGKILL);
  EXPECT_EQ(ranks.wait(0, std::chrono::seconds(10)), kFailed);
  EXPECT_TRUE(ranks.err(0).starts_with("rank 0: ")) << ranks.err(0);
  test::expect_parts(ranks.err(0), {"rank 1"});
  for (const int rank : {0, 1}) {
    const StepsRead read = read_steps(steps_file(path("killed"), rank));
    EXPECT_GE(read.records.size(), 8u) << rank;  // at least two epochs of four steps had ended on both ranks
    EXPECT_EQ(read.bad_lines, 0u);
  }
  const std::string log = read_whole_file(path("killed/log.txt"));
  test::expect_parts(log, {" rank 0: error: "});
  const Finished report = ended(kDone, tutti({"report", path("killed")}));
  test::expect_parts(report.out, {"note: there is no report.json"});
}

}  // namespace
}  // namespace tutti::trainer
