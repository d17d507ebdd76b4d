// `tutti train` as its users see it: whole processes, exit statuses, what is printed, what is written.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/small_run.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpoint.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using test::ExitStatus;
using test::Finished;
using test::Processes;
using namespace std::chrono_literals;

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() { write_small_mnist(folder_ / "mnist", 480, 100); }

  std::vector<std::string> command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words{TUTTI_PROGRAM, "train", "mnist"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  /// Trains on the small set.
  std::vector<std::string> command_with_data(const std::vector<std::string>& arguments) const {
    auto words = command({"--data", (folder_ / "mnist").string(), "--threads", "1"});
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  Finished run(const std::vector<std::string>& words) const { return test::run_program(words, environment()); }
  /// No data anywhere but where --data says.
  std::vector<std::string> environment() const {
    return {"TUTTI_DATA=", "HOME=" + folder_.path().string(), "XDG_CACHE_HOME=" + folder_.path().string()};
  }
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read_whole_file(folder_ / name)); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(TrainCommand, WithoutDataEveryOutputSaysGenerated) {
  const Finished run1 = run(
      command({"--epochs", "1", "--nproc", "2", "--batch-size", "256", "--threads", "1", "--json", path("r.json")}));
  ASSERT_EQ(run1.status, kDone) << run1.err;
  EXPECT_EQ(json("r.json")["generated_data"], true);
  EXPECT_EQ(json("r.json")["world_size"], 2);
  std::istringstream lines(run1.out);
  int results = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("train loss") == std::string::npos && line.find("final test") == std::string::npos) continue;
    ++results;
    EXPECT_NE(line.find("generated"), std::string::npos) << line;
  }
  EXPECT_EQ(results, 2) << run1.out;
}

TEST_F(TrainCommand, SameGlobalBatchSameCurve) {
  const auto train = [&](const char* ranks, const char* batch, const char* file) {
    const Finished done = run(command_with_data(
        {"--nproc", ranks, "--batch-size", batch, "--epochs", "3", "--seed", "4", "--json", path(file)}));
    ASSERT_EQ(done.status, kDone) << done.err;
  };
  train("1", "48", "1.json");
  train("2", "24", "2.json");
  train("4", "12", "4.json");
  const auto one = json("1.json")["epochs"];
  for (const char* name : {"2.json", "4.json"}) {
    const auto other = json(name);
    EXPECT_EQ(other["global_batch"], 48);
    for (std::size_t e = 0; e < 3; ++e) {
      const double ratio = other["epochs"][e]["train_loss"].get<double>() / one[e]["train_loss"].get<double>();
      EXPECT_NEAR(ratio, 1.0, 1e-4) << name << " epoch " << e + 1;
    }
  }
}

TEST_F(TrainCommand, EncryptGivesTheSameModelAndMustBeSaidToAllRanks) {
  const auto train = [&](const std::vector<std::string>& more, const char* file) {
    auto words = command_with_data({"--nproc", "2", "--epochs", "1", "--json", path(file)});
    words.insert(words.end(), more.begin(), more.end());
    auto variables = environment();
    variables.push_back("TUTTI_TRANSPORT=tcp");
    return test::run_program(words, variables);
  };
  ASSERT_EQ(train({}, "plain.json").status, kDone);
  ASSERT_EQ(train({"--encrypt"}, "encrypted.json").status, kDone);
  EXPECT_EQ(json("encrypted.json")["parameter_sha256"], json("plain.json")["parameter_sha256"]);
  EXPECT_TRUE(json("plain.json")["parameter_sha256"].is_string());
  const Finished mixed =
      run({TUTTI_PROGRAM, "run", "-n", "2", "--", "sh", "-c",
           "test $RANK = 1 && more=--encrypt; exec \"$0\" train mnist --epochs 1 --threads 1 $more", TUTTI_PROGRAM});
  EXPECT_EQ(mixed.status, kFailed);
  EXPECT_NE(mixed.err.find("encrypt (TUTTI_ENCRYPT) is no on rank 0"), std::string::npos) << mixed.err;
}

TEST_F(TrainCommand, RanksShareTheOptimizerAndCompressGradients) {
  const auto train = [&](const std::vector<std::string>& more, const char* file) {
    auto words = command_with_data({"--nproc", "2", "--epochs", "1", "--json", path(file)});
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  ASSERT_EQ(train({}, "plain.json").status, kDone);
  const Finished sharded = train({"--shard-optimizer"}, "sharded.json");
  ASSERT_EQ(sharded.status, kDone) << sharded.err;
  EXPECT_NE(sharded.out.find("0.15 MiB on this rank, 0.30 MiB without --shard-optimizer"), std::string::npos)
      << sharded.out;
  EXPECT_EQ(json("sharded.json")["parameter_sha256"], json("plain.json")["parameter_sha256"]);
  const Finished compressed = train({"--comm-hook", "topk", "--topk-density", "0.2"}, "topk.json");
  ASSERT_EQ(compressed.status, kDone) << compressed.err;
  EXPECT_NE(compressed.out.find("gradients travel by topk, --topk-density 0.2"), std::string::npos);
  EXPECT_NE(json("topk.json")["parameter_sha256"], json("plain.json")["parameter_sha256"]);
  const Finished both = train({"--comm-hook", "bf16", "--shard-optimizer"}, "none.json");
  EXPECT_EQ(both.status, (ExitStatus{.by_signal = false, .code = 2}));
  EXPECT_NE(both.err.find("--shard-optimizer and --comm-hook bf16 each have their own way"), std::string::npos)
      << both.err;
}

TEST_F(TrainCommand, KilledAndResumedEqualsUninterrupted) {
  const std::vector<std::string> common{"--nproc", "2", "--epochs", "40", "--batch-size", "8"};
  auto whole = command_with_data(common);
  whole.insert(whole.end(), {"--json", path("whole.json")});
  ASSERT_EQ(run(whole).status, kDone);

  auto words = command_with_data(common);
  words.insert(words.end(), {"--run-dir", path("run")});
  {
    Processes killed({.command = words, .count = 1, .ranks = false, .environment = environment()});
    ASSERT_TRUE(killed.wait_for_output(0, "epoch 3/40")) << killed.err(0);
    killed.kill(0, SIGKILL);  // the launcher; its ranks go with it
    ASSERT_TRUE(killed.wait(0));
  }
  // Whatever was being written then, the one before was complete.
  EXPECT_GE(read_checkpoint(newest_checkpoint(folder_ / "run/checkpoints").value()).state.epoch, 2);
  words.push_back("--resume");
  const Finished resumed = run(words);
  ASSERT_EQ(resumed.status, kDone) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed after epoch "), std::string::npos) << resumed.out;
  EXPECT_EQ(json("run/report.json")["parameter_sha256"], json("whole.json")["parameter_sha256"]);
  EXPECT_EQ(json("run/report.json")["epochs"].size(), 40u);
}

TEST_F(TrainCommand, AKilledRankIsNamedByTheOthersAtOnce) {
  Processes ranks({.command = command_with_data({"--epochs", "1000000"}), .count = 2, .environment = environment()});
  ASSERT_TRUE(ranks.wait_for_output(0, "epoch 2/")) << ranks.err(0);
  ranks.kill(1, SIGKILL);
  EXPECT_EQ(ranks.wait(0, 10s), kFailed);
  EXPECT_EQ(ranks.err(0).rfind("rank 0: ", 0), 0u) << ranks.err(0);
  EXPECT_NE(ranks.err(0).find("rank 1"), std::string::npos) << ranks.err(0);
}

TEST_F(TrainCommand, AFrozenRankIsNamedWithinTheTimeout) {
  Processes ranks({.command = command_with_data({"--epochs", "1000000", "--timeout", "2"}),
                   .count = 2,
                   .environment = environment()});
  ASSERT_TRUE(ranks.wait_for_output(0, "epoch 2/")) << ranks.err(0);
  ranks.kill(1, SIGSTOP);
  EXPECT_EQ(ranks.wait(0, 15s), kFailed);
  EXPECT_NE(ranks.err(0).find("rank 1"), std::string::npos) << ranks.err(0);
  ranks.kill(1, SIGKILL);
}

TEST_F(TrainCommand, BadInputIsOneClearSentence) {
  write_durably(folder_ / "file", "");
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string expected;
  };
  const Case cases[] = {
      {{"--batch-size", "0"}, 2, "--batch-size 0: must be at least 1"},
      {{"--batch-size", "-4"}, 2, "--batch-size -4: must be at least 1"},
      {{"--batch-size", "many"}, 2, "--batch-size"},
      {{"--epochs", "0"}, 2, "--epochs 0: must be at least 1"},
      {{"--epochs", "-1"}, 2, "--epochs -1: must be at least 1"},
      {{"--seed", "-1"}, 2, "--seed -1: must be at least 0"},
      {{"--nproc", "0"}, 2, "--nproc 0: must be between 1 and 4096"},
      {{"--nproc", "-2"}, 2, "--nproc -2: must be between 1 and 4096"},
      {{"--lr", "0"}, 2, "--lr 0: must be above 0"},
      {{"--timeout", "-1"}, 2, "--timeout"},
      {{"--bucket-cap", "0"}, 2, "--bucket-cap 0: must be at least 1 byte"},
      {{"--model", "gpt"}, 2, "--model gpt is not known"},
      {{"--model", "simple_net"}, 2, "the models that fit are mlp, autoencoder"},
      {{"--optimizer", "adagrad"}, 2, "there are adam, adamw, sgd and adadelta"},
      {{"--device", "cuda:4096"}, 2, "--device cuda:4096"},
      {{"--resume"}, 2, "--resume needs --checkpoint-dir"},
      {{"--checkpoint-every", "-1"}, 2, "--checkpoint-every -1: must be at least 0"},
      {{"--checkpoint-every", "20"}, 2, "--checkpoint-every needs --checkpoint-dir"},
      {{"--keep-checkpoints", "-1"}, 2, "--keep-checkpoints -1: must be at least 0"},
      {{"--no-such-option"}, 2, "--no-such-option"},
      {{"--data", ""}, 2, "--data: the value is empty"},
      {{"--data", path("nowhere")}, 1, "nowhere"},
      {{"--json", path("no/such/folder.json")}, 1, "cannot write " + path("no/such/folder.json")},
      {{"--checkpoint-dir", path("file/x")}, 1, "cannot create the folder " + path("file/x")},
  };
  for (const Case& c : cases) {
    for (const bool two_ranks : {false, true}) {
      auto words = command(c.arguments);
      if (two_ranks && c.arguments[0] != "--nproc") words.insert(words.end(), {"--nproc", "2"});
      const Finished done = run(words);
      EXPECT_EQ(done.status, (ExitStatus{.by_signal = false, .code = c.status})) << c.expected << "\n" << done.err;
      EXPECT_NE(done.err.find(c.expected), std::string::npos) << done.err;
      EXPECT_EQ(done.out, "") << c.expected;
      EXPECT_LE(std::count(done.err.begin(), done.err.end(), '\n'), 2) << done.err;  // with "Run ... --help"
    }
  }
}

TEST_F(TrainCommand, DamagedDataIsNamed) {
  const std::string labels = path("mnist/train-labels-idx1-ubyte");
  write_durably(labels, read_whole_file(labels).substr(0, 100));
  for (const char* ranks : {"1", "2"}) {
    const Finished done = run(command_with_data({"--nproc", ranks}));
    EXPECT_EQ(done.status, kFailed);
    EXPECT_NE(done.err.find("train-labels-idx1-ubyte"), std::string::npos) << done.err;
  }
}

TEST_F(TrainCommand, NprocMustAgreeWithTheLauncher) {
  auto words = command_with_data({"--epochs", "1"});
  words.insert(words.end(), {"--nproc", "3"});
  Processes ranks({.command = words, .count = 2, .environment = environment()});
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks.wait(rank), (ExitStatus{.by_signal = false, .code = 2}));
    EXPECT_NE(ranks.err(rank).find("--nproc 3, but a launcher has started WORLD_SIZE=2"), std::string::npos);
  }
}

TEST_F(TrainCommand, FormerCheckpointsAreNotMixedWithNewOnes) {
  const auto words = command_with_data({"--epochs", "1", "--checkpoint-dir", path("c")});
  ASSERT_EQ(run(words).status, kDone);
  const Finished again = run(words);
  EXPECT_EQ(again.status, kFailed);
  EXPECT_NE(again.err.find("add --resume to continue it"), std::string::npos) << again.err;
}

TEST_F(TrainCommand, ResumeWithOtherOptionsSaysWhich) {
  ASSERT_EQ(run(command_with_data({"--epochs", "1", "--checkpoint-dir", path("c")})).status, kDone);
  const Finished other =
      run(command_with_data({"--nproc", "2", "--lr", "0.5", "--checkpoint-dir", path("c"), "--resume"}));
  EXPECT_EQ(other.status, kFailed);
  EXPECT_NE(other.err.find("global batch was 64, now 128; lr was 0.001, now 0.5"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace tutti::trainer
