#include <gtest/gtest.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/task.h>

namespace tutti::trainer {
namespace {

TrainOptions mercer() {
  TrainOptions options = default_options("mercer");
  options.model = "simple_net";
  return options;
}

TEST(Task, DefaultsAreThoseThatTheHelpPromises) {
  EXPECT_EQ(default_options("mnist").model, "mlp");
  EXPECT_FALSE(default_options("mnist").augment);
  const TrainOptions options = default_options("mercer");
  EXPECT_EQ(options.model, "resnet18");
  EXPECT_EQ(options.optimizer, "sgd");
  EXPECT_EQ(options.effective_learning_rate(), 0.05);
  EXPECT_EQ(options.effective_weight_decay(), 5e-4);
  EXPECT_TRUE(options.augment);
  EXPECT_THROW(default_options("cats"), UsageError);
  EXPECT_EQ(error_of([] { checked(mercer()); }), "");
}

TEST(Task, MercersPicturesComeFromTheFolder) {
  const TemporaryFolder folder;
  write_scene_folder(folder / "set", 5);
  TrainOptions options = mercer();
  options.data = folder / "set";
  options.cache_dir = folder / "cache";
  check_task_data(options);
  const TaskData data = load_task_data(options, 2);
  EXPECT_EQ(data.train.count(), 84);
  EXPECT_EQ(data.test.count(), 21);
  EXPECT_EQ(data.train.name, "set train");
  EXPECT_TRUE(data.notes.empty());
  EXPECT_FALSE(std::filesystem::is_empty(folder / "cache"));
  write_durably(folder / "list", "harbor/harbor01.png\n");
  options.test_list = folder / "list";
  EXPECT_EQ(load_task_data(options, 1).test.count(), 1);
  write_durably(folder / "list", "harbor/harbor77.png\n");
  EXPECT_NE(error_of([&] { check_task_data(options); }).find("harbor/harbor77.png is no picture"), std::string::npos);
  options.data = folder / "none";
  EXPECT_EQ(error_of([&] { check_task_data(options); }), (folder / "none").string() + ": no such folder");
}

TEST(Task, TheModelHasAnOutputForEachClass) {
  ImageDataset set;
  set.name = "set train";
  set.classes = 5;
  EXPECT_EQ(make_task_model(mercer(), set)->named_parameters().back().second.data().shape(), (tensor::Shape{5}));
  set.classes = 1;
  set.class_names = {"Images"};
  EXPECT_EQ(error_of([&] { make_task_model(mercer(), set); }),
            "set train has one class only (Images): nothing to tell apart; expected a folder for each of several "
            "classes");
}

TEST(Task, PicturesAreNormalisedAndAugmentedForMercerOnly) {
  EXPECT_EQ(normalisation_of(mercer()).mean.size(), 3u);
  EXPECT_TRUE(augmentation_of(mercer()).rotate);
  TrainOptions plain = mercer();
  plain.augment = false;
  EXPECT_FALSE(augmentation_of(plain).any());
  EXPECT_TRUE(normalisation_of(default_options("mnist")).mean.empty());
  EXPECT_FALSE(augmentation_of(default_options("mnist")).any());
  EXPECT_NE(options_that_must_agree(plain, 1, "d"), options_that_must_agree(mercer(), 1, "d"));
}

}  // namespace
}  // namespace tutti::trainer
