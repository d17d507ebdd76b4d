// `tutti train` as its users see it: whole processes, exit statuses, what is printed, what is written.

#include <signal.h>
#include <tutti/tests/trainer/small_run.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using test::ExitStatus;
using test::Finished;
using test::Processes;
using namespace std::chrono_literals;

class TrainCommand : public TuttiCommand {
 protected:
  TrainCommand() { write_small_mnist(folder_ / "mnist", 480, 100); }

  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read_whole_file(folder_ / name)); }
  static Words command(const Words& arguments) { return joined({TUTTI_PROGRAM, "train", "mnist"}, arguments); }
  /// Trains on the small set.
  Words command_with_data(const Words& arguments) const {
    return joined(command({"--data", path("mnist"), "--threads", "1"}), arguments);
  }
};

TEST_F(TrainCommand, WithoutDataEveryOutputSaysGenerated) {
  const Finished run1 = ended(kDone, run(command({"--epochs", "1", "--nproc", "2", "--batch-size", "256", "--threads",
                                                  "1", "--json", path("r.json")})));
  EXPECT_EQ(json("r.json")["generated_data"], true);
  EXPECT_EQ(json("r.json")["world_size"], 2);
  expect_results_named_generated(run1.out, "generated");
}

TEST_F(TrainCommand, EncryptGivesTheSameModelAndMustBeSaidToAllRanks) {
  const auto train = [&](const Words& more, const char* file) {
    return test::run_program(joined(command_with_data({"--nproc", "2", "--epochs", "1", "--json", path(file)}), more),
                             joined(environment(), {"TUTTI_TRANSPORT=tcp"}));
  };
  ended(kDone, train({}, "plain.json"));
  ended(kDone, train({"--encrypt"}, "encrypted.json"));
  EXPECT_EQ(json("encrypted.json")["parameter_sha256"], json("plain.json")["parameter_sha256"]);
  EXPECT_TRUE(json("plain.json")["parameter_sha256"].is_string());
  const Finished mixed =
      run({TUTTI_PROGRAM, "run", "-n", "2", "--", "sh", "-c",
           "test $RANK = 1 && more=--encrypt; exec \"$0\" train mnist --epochs 1 --threads 1 $more", TUTTI_PROGRAM});
  EXPECT_EQ(mixed.status, kFailed);
  test::expect_parts(mixed.err, {"encrypt (TUTTI_ENCRYPT) is no on rank 0"});
}

TEST_F(TrainCommand, BadInputIsOneClearSentence) {
  replace_file(folder_ / "file", "");
  const Refused cases[] = {
      {{"--batch-size", "-4"}, 2, "--batch-size -4: must be at least 1"},
      {{"--batch-size", "many"}, 2, "--batch-size"},
      {{"--seed", "-1"}, 2, "--seed -1: must be at least 0"},
      {{"--nproc", "0"}, 2, "--nproc 0: must be between 1 and 4096"},
      {{"--nproc", "-2"}, 2, "--nproc -2: must be between 1 and 4096"},
      {{"--timeout", "-1"}, 2, "--timeout"},
      {{"--no-such-option"}, 2, "--no-such-option"},
      {{"--chaos", "kill:rank=1"}, 2, "tutti train: --chaos: chaos \"kill:rank=1\": step= is missing"},
      {{"--data", ""}, 2, "--data: the value is empty"},
      {{"--data", path("nowhere")}, 1, "nowhere"},
      {{"--json", path("no/such/folder.json")}, 1, "cannot write " + path("no/such/folder.json")},
      {{"--checkpoint-dir", path("file/x")}, 1, "cannot create the folder " + path("file/x")},
  };
  for (const auto& [words, status, expected] : cases) {
    const Words whole = joined({"train", "mnist"}, words);
    expect_refusals({{whole, status, expected}});
    if (words[0] != "--nproc") expect_refusals({{joined(whole, {"--nproc", "2"}), status, expected}});
  }
}

TEST_F(TrainCommand, DamagedDataIsNamed) {
  const std::string labels = path("mnist/train-labels-idx1-ubyte");
  replace_file(labels, read_whole_file(labels).substr(0, 100));
  for (const char* ranks : {"1", "2"}) {
    const Finished done = ended(kFailed, run(command_with_data({"--nproc", ranks})));
    test::expect_parts(done.err, {"train-labels-idx1-ubyte"});
  }
}

TEST_F(TrainCommand, NprocMustAgreeWithTheLauncher) {
  Processes ranks(ranks_of(command_with_data({"--epochs", "1", "--nproc", "3"})));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks.wait(rank), kMisused);
    test::expect_parts(ranks.err(rank), {"--nproc 3, but a launcher has started WORLD_SIZE=2"});
  }
}

// `tutti train --chaos`: a rank dies, freezes or dawdles at a known step, and the run copes as it does with real
// trouble.

class ChaosCommand : public SmallRun {};

TEST_F(ChaosCommand, AKilledRankIsNamedAndARestartEndsWithTheUndisturbedParameters) {
  const auto disturbed = run(
      joined({TUTTI_PROGRAM, "run", "-n", "2", "--max-restarts", "1", "--"},
             saving({"--epochs", "2", "--json", path("chaos.json"), "--resume", "--chaos", "kill:rank=1,step=75"})));
  EXPECT_EQ(disturbed.status, kDone) << disturbed.err;
  test::expect_parts(disturbed.err, {"chaos: rank 1 kills itself at step 75", "was killed by SIGKILL",
                                     "starting all ranks again (restart 1 of at most 1)"});
  EXPECT_EQ(outcome("chaos.json").parameter_sha256, uninterrupted(2).parameter_sha256);
}

TEST_F(ChaosCommand, AFrozenRankIsNamed) {
  const auto frozen =
      run(command({"--nproc", "2", "--epochs", "1", "--timeout", "1", "--chaos", "freeze:rank=1,step=9"}));
  EXPECT_NE(frozen.status, kDone);
  test::expect_parts(frozen.err, {"chaos: rank 1 freezes at step 9", "rank 1"});
}

TEST_F(ChaosCommand, SlowAndLateRanksChangeNoResult) {
  const auto slow = run(command({"--nproc", "2", "--epochs", "1", "--json", path("slow.json"), "--chaos",
                                 "slow:rank=0,factor=2;delay:rank=1,ms=30,step=5"}));
  EXPECT_EQ(slow.status, kDone) << slow.err;
  test::expect_parts(slow.err, {"rank 0 becomes slow", "rank 1 waits at step 5"});
  EXPECT_EQ(outcome("slow.json").parameter_sha256, uninterrupted(1).parameter_sha256);
}

}  // namespace
}  // namespace tutti::trainer
