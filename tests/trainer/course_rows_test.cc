// The course programs that are `tutti train` commands (tools/examples/README.md), with their model, optimizer and
// settings, on small data: each ends well and prints the right numbers.
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/small_run.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using test::Finished;

class CourseRows : public TuttiCommand {
 protected:
  using Json = nlohmann::json;

  Json json(const std::string& name) const { return Json::parse(read_whole_file(folder_ / name)); }
  Finished run(const Words& words) const {
    Finished finished = TuttiCommand::run(joined({TUTTI_PROGRAM}, words), std::chrono::seconds(280));  // resnet101
    EXPECT_EQ(finished.status, kDone) << finished.err;
    return finished;
  }
  /// tutti train <task> --data <small set> <arguments> --json ...; returns what it wrote.
  Json train(const std::string& task, const Words& arguments) {
    const std::string report = "report" + std::to_string(++runs_) + ".json";
    const Words words{"train", task, "--data", path(task), "--threads", "1", "--json", path(report)};
    return run(joined(words, arguments)).status == kDone ? json(report) : Json();
  }
  /// 21 pictures, one of each class: 5 to test on, 16 to train on, which is whole batches of 4 for two ranks.
  void write_mercer() {
    write_scene_folder(folder_ / "mercer", 1);
    std::string list;
    for (const char* name : {"beach", "forest", "freeway", "harbor", "river"}) {
      list += std::string(name) + "/" + name + "00.png\n";
    }
    replace_file(folder_ / "test.txt", list);
  }

  /// The samples that the confusion matrix counts, and how many of them lie on its diagonal.
  static std::pair<int, int> counted(const Json& report) {
    int all = 0;
    int right = 0;
    const Json& rows = report["confusion_matrix"];
    for (std::size_t actual = 0; actual < rows.size(); ++actual) {
      for (std::size_t predicted = 0; predicted < rows[actual].size(); ++predicted) {
        const int count = rows[actual][predicted].get<int>();
        all += count;
        if (actual == predicted) right += count;
      }
    }
    return {all, right};
  }

  int runs_ = 0;
};

TEST_F(CourseRows, Row1MnistMlp) {
  write_small_mnist(folder_ / "mnist", 4096, 500);
  const Json report = train("mnist", {"--model", "mlp", "--epochs", "5", "--batch-size", "64", "--nproc", "2"});
  ASSERT_EQ(report["epochs"].size(), 5u);
  EXPECT_EQ(report["global_batch"], 128);
  EXPECT_LT(report["epochs"][4]["train_loss"], report["epochs"][0]["train_loss"]);
  EXPECT_GT(report["final_test_accuracy"], 0.6);
  const auto [all, right] = counted(report);
  EXPECT_EQ(all, 500);
  EXPECT_DOUBLE_EQ(report["final_test_accuracy"].get<double>(), right / 500.0);
}

TEST_F(CourseRows, Row1TrainAccuracyBesideTestAccuracyAndALineForSomeSteps) {
  std::filesystem::create_directories(folder_ / "mnist");
  for (const Split split : {Split::Train, Split::Test})  // one set, so that both accuracies must be the same
    write_mnist_split(folder_ / "mnist", split, generate_digits(Split::Train, 0, 600), 600);
  const std::string report = path("report.json");
  const Finished done = run({"train", "mnist", "--data", path("mnist"), "--epochs", "2", "--batch-size", "50",
                             "--nproc", "2", "--eval-train", "--log-every", "3", "--json", report});
  const Json recorded = Json::parse(read_whole_file(report));
  for (const Json& epoch : recorded["epochs"]) {
    EXPECT_GT(epoch["train_accuracy"], 0.1);
    EXPECT_EQ(epoch["train_accuracy"], epoch["test_accuracy"]);
  }
  std::size_t at = 0;
  for (const char* line : {"epoch 1/2  step 3/6  loss ", "epoch 1/2  step 6/6  loss ", "  train accuracy 0.",
                           "epoch 2/2  step 3/6  loss ", "epoch 2/2  step 6/6  loss "}) {
    at = done.out.find(line, at);
    ASSERT_NE(at, std::string::npos) << line << " is not in its place in " << done.out;
  }
  const Finished refused =
      test::run_program({TUTTI_PROGRAM, "train", "mnist", "--model", "autoencoder", "--eval-train"});
  EXPECT_EQ(refused.err.substr(0, refused.err.find('\n')),
            "tutti train: --eval-train shows an accuracy, but autoencoder does not classify");
}

TEST_F(CourseRows, Rows9And12MercerResnet101WithCheckpointsAndConfusionMatrix) {
  write_mercer();
  const Json report = train("mercer", {"--model",
                                       "resnet101",
                                       "--optimizer",
                                       "sgd",
                                       "--lr",
                                       "0.01",
                                       "--batch-size",
                                       "4",
                                       "--epochs",
                                       "1",
                                       "--image-size",
                                       "32",
                                       "--test-list",
                                       "all",
                                       "--no-augment",
                                       "--log-every",
                                       "2",
                                       "--run-dir",
                                       path("run"),
                                       "--nproc",
                                       "2"});
  EXPECT_EQ(report["global_batch"], 8);
  EXPECT_EQ(report["confusion_matrix"].size(), 21u);
  EXPECT_EQ(counted(report).first, 21);
  const std::string log = read_whole_file(folder_ / "run/log.txt");
  for (const char* rank : {"rank 0", "rank 1"})
    EXPECT_NE(log.find(std::string(rank) + ": epoch 1/1  step 2/"), std::string::npos) << log;

  // One process loads the last checkpoint, predicts everything and prints actual x predicted.
  const Finished evaluated = run({"evaluate", path("run"), "--split", "all", "--json", path("evaluation.json")});
  const Json evaluation = json("evaluation.json");
  EXPECT_EQ(evaluation["confusion_matrix"], report["confusion_matrix"]);
  test::expect_parts(evaluated.out, {"actual \\ predicted"});
}

TEST_F(CourseRows, Row10MercerLinearNet) {
  write_mercer();
  const Json report = train("mercer", {"--model", "simple_net", "--optimizer", "sgd", "--lr", "0.01", "--batch-size",
                                       "4", "--epochs", "3", "--test-list", path("test.txt"), "--nproc", "2"});
  ASSERT_EQ(report["epochs"].size(), 3u);
  EXPECT_LT(report["epochs"][2]["train_loss"], report["epochs"][0]["train_loss"]);
  EXPECT_EQ(counted(report).first, 5);
}

TEST_F(CourseRows, Row20AutoencoderWithTheBatchDividedByTheRanks) {
  write_small_mnist(folder_ / "mnist", 1024, 100);
  const auto epochs = [&](const char* ranks, const char* batch) {
    return train("mnist",
                 {"--model", "autoencoder", "--batch-size", batch, "--epochs", "2", "--nproc", ranks})["epochs"];
  };
  const Json one = epochs("1", "128");
  EXPECT_LT(one[1]["train_loss"], one[0]["train_loss"]);
  EXPECT_TRUE(one[1]["test_accuracy"].is_null());
  for (const auto& [ranks, batch] : {std::pair("2", "64"), {"4", "32"}}) {
    const Json several = epochs(ranks, batch);
    for (std::size_t e = 0; e < 2; ++e) {
      EXPECT_NEAR(several[e]["train_loss"].get<double>(), one[e]["train_loss"].get<double>(), 1e-4) << ranks;
    }
  }
}

}  // namespace
}  // namespace tutti::trainer
