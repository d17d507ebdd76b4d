// `tutti train mercer` as its users see it.
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/small_run.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using test::Finished;

class TrainMercer : public TuttiCommand {
 protected:
  static void SetUpTestSuite() {
    set_ = new TemporaryFolder();
    write_scene_folder(set_->path() / "set", 10);
  }
  static void TearDownTestSuite() { delete set_; }

  Finished train(const Words& arguments) const {
    Words words{TUTTI_PROGRAM, "train", "mercer", "--threads", "1"};
    if (std::find(arguments.begin(), arguments.end(), "--model") == arguments.end()) {
      words = joined(words, {"--model", "simple_net"});
    }
    return run(joined(words, arguments));
  }
  Finished train_on(const std::string& data, const Words& arguments) const {
    return train(joined({"--data", data}, arguments));
  }
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read_whole_file(folder_ / name)); }
  static std::string set() { return (set_->path() / "set").string(); }

  inline static TemporaryFolder* set_ = nullptr;
};

TEST_F(TrainMercer, TheConfusionMatrixHasTheClassesNames) {
  const Finished done = ended(kDone, train_on(set(), {"--nproc", "2", "--epochs", "1", "--json", path("r.json")}));
  test::expect_parts(done.out,
                     {"168 samples of set train, 42 to test", "\n       0 agricultural ", "\n      20 tenniscourt "});
  EXPECT_EQ(json("r.json")["generated_data"], false);
  EXPECT_EQ(json("r.json")["class_names"].size(), 21u);
  EXPECT_EQ(json("r.json")["confusion_matrix"].size(), 21u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "tutti/images"));
}

TEST_F(TrainMercer, WithoutDataEveryOutputSaysGenerated) {
  const Finished done = ended(kDone, train({"--epochs", "1", "--batch-size", "105", "--json", path("r.json")}));
  EXPECT_EQ(json("r.json")["generated_data"], true);
  test::expect_parts(done.out, {"these are generated scenes"});
  expect_results_named_generated(done.out, "[generated scenes]");
}

TEST_F(TrainMercer, BadPicturesAreNamedOrLeftOutOnAllRanks) {
  std::filesystem::copy(set(), folder_ / "bad", std::filesystem::copy_options::recursive);
  const std::string png = read_whole_file(folder_ / "bad/beach/beach00.png");
  replace_file(folder_ / "bad/beach/beach00.png", png.substr(0, png.size() / 2));
  replace_file(folder_ / "bad/river/river03.png", "");
  replace_file(folder_ / "bad/river/river05.png", "a text\n");
  replace_file(folder_ / "bad/harbor/notes.txt", "");
  const Words arguments{"--nproc", "2", "--epochs", "1", "--json", path("r.json")};
  const Finished refused = ended(kFailed, train_on(path("bad"), arguments));
  test::expect_parts(
      refused.err,
      {"3 of 210 pictures cannot be used", "bad/beach/beach00.png is not a whole PNG picture: the file ends too early",
       "bad/river/river03.png is empty (0 bytes)", "bad/river/river05.png is not a PNG, JPEG or TIFF picture"});
  const Finished skipped = ended(kDone, train_on(path("bad"), joined(arguments, {"--skip-bad-images"})));
  test::expect_parts(skipped.out, {"165 samples of bad train, 42 to test",
                                   "3 pictures cannot be used and are left out:\n  " + path("bad/beach/beach00.png")});
  const std::string note =
      "1 names in " + path("bad") + " are no pictures and are ignored, the first is harbor/notes.txt";
  test::expect_parts(skipped.out, {note});
  EXPECT_EQ(skipped.out.find(note), skipped.out.rfind(note)) << skipped.out;
}

TEST_F(TrainMercer, FoldersThatCannotBeUsedAreNamedBeforeAnyRankStarts) {
  std::filesystem::create_directories(folder_ / "hollow/beach");
  std::filesystem::create_directories(folder_ / "flat");
  for (const auto& [name, expected] : {std::pair{"hollow", "hollow/beach: this class has no pictures"},
                                       {"flat", "flat: holds no folders"},
                                       {"nowhere", "nowhere: no such folder"}}) {
    for (const char* ranks : {"1", "2"}) {
      const Finished done = ended(kFailed, train_on(path(name), {"--nproc", ranks}));
      test::expect_parts(done.err, {expected});
      EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    }
  }
}

TEST_F(TrainMercer, ADamagedCacheIsNamedAndMended) {
  const Words arguments{"--epochs", "1", "--cache-dir", path("cache"), "--json", path("r.json")};
  ended(kDone, train_on(set(), arguments));
  const auto hash = json("r.json")["parameter_sha256"];
  const std::filesystem::path file = std::filesystem::directory_iterator(folder_ / "cache")->path();
  std::string bytes = read_whole_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  replace_file(file, bytes);
  const Finished mended = ended(kDone, train_on(set(), arguments));
  test::expect_parts(mended.out, {"rank 0: " + file.string() + ": this cache of decoded pictures is damaged"});
  EXPECT_EQ(json("r.json")["parameter_sha256"], hash);
  const Finished again = train_on(set(), arguments);
  test::expect_absent(again.out, {"damaged"});
  EXPECT_EQ(json("r.json")["parameter_sha256"], hash);
}

TEST_F(TrainMercer, NamingAnOptimizerTakesItsOwnDefaultsOnAnyModelAndSize) {
  const Finished own = ended(kDone, train_on(set(), {"--epochs", "1", "--optimizer", "adam"}));
  test::expect_parts(own.out, {"adam lr 0.001, flips and quarter turns, seed 0"});
  const Finished usual =
      train_on(set(), {"--model", "resnet18", "--image-size", "16", "--batch-size", "56", "--epochs", "1", "--nproc",
                       "2", "--optimizer", "sgd"});  // which is the task's: naming it changes nothing
  ASSERT_EQ(usual.status, kDone) << usual.err;
  test::expect_parts(usual.out, {"training resnet18 (11,187,285 parameters)", "sgd lr 0.05, cosine schedule"});
}

}  // namespace
}  // namespace tutti::trainer
