// `tutti train --elastic` and `tutti run --elastic` as whole processes that are killed and frozen from outside.
//
// TUTTI_ELASTIC_MOMENTS=100 makes a hundred random kills of the two that ctest does; TUTTI_ELASTIC_SEED chooses them.
#include <signal.h>
#include <tutti/tests/trainer/small_run.h>
#include <tutti/trainer/report/step_records.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

namespace tutti::trainer {
namespace {

using test::Processes;

constexpr int kEpochs = 40;  // most of them lie behind what a test does to the job, however late it comes to do so

class ElasticCommand : public SmallRun {
 protected:
  /// On three ranks, 40 steps an epoch.
  Words elastic(int epochs, const Words& more) const {
    return joined(command({"--nproc", "3", "--elastic", "--epochs", std::to_string(epochs), "--run-dir", path("run"),
                           "--json", path("report.json")}),
                  more);
  }
  std::unique_ptr<Processes> start(const Words& words) const { return std::make_unique<Processes>(alone(words)); }
  Outcome undisturbed(int epochs) const { return uninterrupted(epochs, {"--nproc", "3"}); }

  std::vector<std::int64_t> recorded(int rank) const {
    std::vector<std::int64_t> steps;
    for (const StepRecord& record : read_steps(steps_file(folder_ / "run", rank)).records) {
      steps.push_back(record.global_step);
    }
    return steps;
  }
  /// A survivor repeats no step, and misses at most one: that which it was behind.
  void expect_at_most_one_step_lost(int rank, std::int64_t steps) const {
    const auto done = recorded(rank);
    EXPECT_GE(static_cast<std::int64_t>(done.size()), steps - 1) << "rank " << rank;
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end())) << "rank " << rank;
    EXPECT_EQ(std::adjacent_find(done.begin(), done.end()), done.end()) << "rank " << rank;
    EXPECT_EQ(done.back(), steps - 1) << "rank " << rank;
  }
};

TEST_F(ElasticCommand, AKilledRankIsReplacedAtAnyMomentAndTheOthersKeepTheirProcesses) {
  const Outcome whole = undisturbed(kEpochs);
  const int moments = number_from_environment("TUTTI_ELASTIC_MOMENTS", 2);
  std::mt19937 random(static_cast<unsigned>(number_from_environment("TUTTI_ELASTIC_SEED", 1)));
  for (int moment = 0; moment < moments; ++moment) {
    std::filesystem::remove_all(folder_ / "run");
    const int victim = static_cast<int>(random() % 3);
    const int epoch = 1 + static_cast<int>(random() % (kEpochs / 2));
    const std::chrono::microseconds later(random() % 8000);
    SCOPED_TRACE("moment " + std::to_string(moment) + ": rank " + std::to_string(victim) + " killed " +
                 std::to_string(later.count()) + " us after epoch " + std::to_string(epoch));
    const auto job = start(elastic(kEpochs, {}));
    ASSERT_TRUE(job->wait_for_output(0, "epoch " + std::to_string(epoch) + "/")) << job->err(0);
    auto before = workers_of(job->pid(0));
    ASSERT_EQ(before.size(), 3U);
    const std::string lost = "0." + std::to_string(victim) + ".0";
    for (const auto at = std::chrono::steady_clock::now() + later; std::chrono::steady_clock::now() < at;) {
    }
    ASSERT_EQ(::kill(before.at(lost), SIGKILL), 0);
    ASSERT_TRUE(job->wait_for_output(0, "generation 1: 3 ranks")) << job->err(0);
    const auto after = workers_of(job->pid(0));
    EXPECT_EQ(job->wait(0), kDone) << job->err(0);
    for (const auto& [worker, pid] : before) {
      if (worker == lost || after.empty()) continue;
      ASSERT_TRUE(after.contains(worker)) << worker;
      EXPECT_EQ(after.at(worker), pid) << worker;
    }
    EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256) << job->out(0) << job->err(0);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) expect_at_most_one_step_lost(rank, 40 * kEpochs);
    }
    test::expect_parts(job->err(0), {"rank " + std::to_string(victim) + " (pid",
                                     "1 rank starts again, 2 ranks go on (restart 1 of at most 3)"});
  }
}

// Before the first step, too: while processes start, read their data and form their group.
TEST_F(ElasticCommand, ARankIsKilledWhileTheJobStarts) {
  const Outcome whole = undisturbed(2);
  std::mt19937 random(static_cast<unsigned>(number_from_environment("TUTTI_ELASTIC_SEED", 1)));
  for (int moment = 0; moment < 3; ++moment) {
    std::filesystem::remove_all(folder_ / "run");
    const std::string victim = "0." + std::to_string(random() % 3) + ".0";
    const std::chrono::microseconds later(random() % 60'000);
    SCOPED_TRACE(victim + " killed " + std::to_string(later.count()) + " us after its start");
    const auto job = start(elastic(2, {}));
    std::map<std::string, pid_t> workers;
    while (!workers.contains(victim)) workers = workers_of(job->pid(0));
    for (const auto at = std::chrono::steady_clock::now() + later; std::chrono::steady_clock::now() < at;) {
    }
    ASSERT_EQ(::kill(workers.at(victim), SIGKILL), 0);
    EXPECT_EQ(job->wait(0), kDone) << job->err(0);
    EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256) << job->err(0);
  }
}

TEST_F(ElasticCommand, AFrozenRankIsNamedKilledAndReplaced) {
  const Outcome whole = undisturbed(kEpochs);
  const auto job = start(elastic(kEpochs, {"--timeout", "3"}));
  ASSERT_TRUE(job->wait_for_output(0, "epoch 3/")) << job->err(0);
  const pid_t frozen = workers_of(job->pid(0)).at("0.1.0");
  ASSERT_EQ(::kill(frozen, SIGSTOP), 0);
  EXPECT_EQ(job->wait(0), kDone) << job->err(0);
  test::expect_parts(job->err(0), {"rank 1 (pid " + std::to_string(frozen) +
                                       ") is frozen (SIGSTOP or a debugger) and is "
                                       "killed; worker 0.",
                                   "timed out"});
  EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256);
}

TEST_F(ElasticCommand, TheWorldShrinksWhenRestartsAreUsedUp) {
  const auto job = start(elastic(kEpochs, {"--reproducible", "--max-restarts", "0", "--min-ranks", "2"}));
  ASSERT_TRUE(job->wait_for_output(0, "epoch 2/")) << job->err(0);
  ASSERT_EQ(::kill(workers_of(job->pid(0)).at("0.0.0"), SIGKILL), 0);
  ASSERT_TRUE(job->wait_for_output(0, "generation 1: 2 ranks")) << job->err(0);
  EXPECT_EQ(job->wait(0), kDone) << job->err(0);
  test::expect_parts(job->err(0), {"2 ranks go on, of 3"});
  EXPECT_EQ(outcome("report.json").parameter_sha256,
            uninterrupted(kEpochs, {"--nproc", "3", "--reproducible"}).parameter_sha256);
}

TEST_F(ElasticCommand, TheJobEndsWhenTooFewAreLeft) {
  const auto job = start(elastic(2000, {"--max-restarts", "0"}));
  ASSERT_TRUE(job->wait_for_output(0, "epoch 2/")) << job->err(0);
  ASSERT_EQ(::kill(workers_of(job->pid(0)).at("0.2.0"), SIGKILL), 0);
  EXPECT_EQ(job->wait(0), (test::ExitStatus{.by_signal = false, .code = 128 + SIGKILL}));
  test::expect_parts(job->err(0), {"rank 2 (pid", "was killed by SIGKILL"});
}

TEST_F(ElasticCommand, AllRanksAreLostAndTheLastCheckpointGoesOn) {
  const Outcome whole = undisturbed(kEpochs);
  const auto job = start(elastic(kEpochs, {"--checkpoint-every", "25"}));
  ASSERT_TRUE(job->wait_for_output(0, "epoch 4/")) << job->err(0);
  for (const auto& [worker, pid] : workers_of(job->pid(0))) ASSERT_EQ(::kill(pid, SIGKILL), 0) << worker;
  EXPECT_EQ(job->wait(0), kDone) << job->err(0);
  test::expect_parts(job->out(0), {"resumed after epoch"});
  EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256);
}

// Not even a rank that starts again takes another run's checkpoints for its own.
TEST_F(ElasticCommand, CheckpointsOfAnEarlierRunAreRefused) {
  ended(kDone, run(saving({"--nproc", "2", "--epochs", "1"})));
  const test::Finished refused =
      ended(kFailed, run(joined({TUTTI_PROGRAM, "run", "-n", "2", "--elastic", "--max-restarts", "1", "--"},
                                saving({"--epochs", "2"}))));
  test::expect_parts(refused.err, {"already holds"});
  test::expect_absent(refused.out, {"resumed"});
}

// What another start would meet as well costs none of them: a disk without room (here a limit), options that differ.
TEST_F(ElasticCommand, AnErrorThatAnotherStartWouldMeetEndsTheJob) {
  for (const auto& [script, reason] : {std::pair("ulimit -f 40; exec \"$0\" \"$@\"", "File too large"),
                                       {"exec \"$0\" \"$@\" --seed $RANK", "--seed is 0 on rank 0, 1 on rank 1"}}) {
    SCOPED_TRACE(script);
    const test::Finished done = ended(
        kFailed,
        run(joined({TUTTI_PROGRAM, "run", "-n", "2", "--elastic", "--max-restarts", "3", "--", "sh", "-c", script},
                   command({"--epochs", "2", "--checkpoint-dir", path("fresh"), "--timeout", "20"}))));
    test::expect_parts(done.err, {"the job ends, as a restart would not help: worker 0.", reason});
    test::expect_absent(done.out, {"generation 1"});
  }
}

TEST_F(ElasticCommand, AKilledLauncherLeavesNoReplacementBehind) {
  const auto job = start(elastic(2000, {}));
  ASSERT_TRUE(job->wait_for_output(0, "epoch 2/")) << job->err(0);
  ASSERT_EQ(::kill(workers_of(job->pid(0)).at("0.1.0"), SIGKILL), 0);
  ASSERT_TRUE(job->wait_for_output(0, "generation 1: 3 ranks")) << job->err(0);
  const auto workers = workers_of(job->pid(0));
  EXPECT_TRUE(workers.contains("0.1.1"));
  job->kill(0, SIGKILL);
  for (const auto& [worker, pid] : workers) {
    EXPECT_TRUE(test::wait_until_gone(pid, std::chrono::seconds(10))) << worker;
  }
}

// Not elastic: it never registers, so all of it is started again.
TEST_F(ElasticCommand, AnotherProgramIsStartedAgainAsAWhole) {
  const std::string script =
      "echo rank $RANK start $TORCHELASTIC_RESTART_COUNT; test $RANK$TORCHELASTIC_RESTART_COUNT != 10 || exit 7";
  const test::Finished done = ended(kDone, test::run_program({TUTTI_PROGRAM, "run", "-n", "2", "--elastic",
                                                              "--max-restarts", "1", "--", "sh", "-c", script}));
  test::expect_parts(done.out, {"rank 0 start 0", "rank 1 start 0", "rank 0 start 1", "rank 1 start 1"});
  test::expect_parts(done.err, {"starting all ranks again (restart 1 of at most 1)"});
}

TEST_F(ElasticCommand, OptionsThatCannotBeMeant) {
  const std::pair<Words, const char*> cases[] = {
      {{TUTTI_PROGRAM, "run", "-n", "2", "--elastic", "--min-ranks", "3", "--", "true"}, "--min-ranks is 3"},
      {{TUTTI_PROGRAM, "run", "-n", "2", "--min-ranks", "1", "--", "true"}, "--min-ranks belongs to --elastic"},
      {command({"--nproc", "2", "--max-restarts", "1"}), "--max-restarts and --min-ranks belong to --elastic"},
      {joined({TUTTI_PROGRAM, "run", "-n", "2", "--"}, command({"--elastic"})), "give --elastic to tutti run"},
      {command({"--nproc", "2", "--elastic", "--shard-optimizer"}),
       "--shard-optimizer does not go with elastic training"},
  };
  for (const auto& [words, expected] : cases) {
    const test::Finished done = run(words);
    EXPECT_EQ(done.status.code, 2) << expected;
    test::expect_parts(done.err, {expected});
  }
}

}  // namespace
}  // namespace tutti::trainer
