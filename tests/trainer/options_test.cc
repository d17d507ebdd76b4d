#include <gtest/gtest.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/task.h>

#include <functional>
#include <limits>
#include <map>
#include <set>

namespace tutti::trainer {
namespace {

TrainOptions mercer() {
  TrainOptions options = default_options("mercer");
  options.model = "simple_net";
  return options;
}

TEST(TrainOptions, DefaultsAreFine) {
  const TrainOptions options = checked({});
  EXPECT_EQ(options.model, "mlp");
  EXPECT_EQ(options.effective_learning_rate(), 1e-3);
  TrainOptions sgd;
  sgd.optimizer = "sgd";
  EXPECT_EQ(checked(sgd).effective_learning_rate(), 1e-2);
  TrainOptions adamw;
  adamw.optimizer = "adamw";
  EXPECT_EQ(checked(adamw).effective_learning_rate(), 1e-3);
  EXPECT_EQ(checked(adamw).effective_weight_decay(), 1e-2);
  EXPECT_EQ(options.effective_weight_decay(), 0);
}

TEST(TrainOptions, RunDirFillsWhatIsNotSet) {
  TrainOptions options;
  options.run_dir = "runs/a";
  EXPECT_EQ(checked(options).json, "runs/a/report.json");
  EXPECT_EQ(checked(options).checkpoint_dir, "runs/a/checkpoints");
  options.json = "x.json";
  EXPECT_EQ(checked(options).json, "x.json");
}

TEST(TrainOptions, EachMistakeIsOneSentenceThatNamesTheOption) {
  struct Case {
    std::function<void(TrainOptions&)> spoil;
    const char* expected;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Case cases[] = {
      {[](auto& o) { o.task = "cats"; }, "the task cats is not known"},
      {[](auto& o) { o.model = "mpl"; }, "--model mpl is not known; the models for MNIST are mlp, autoencoder"},
      {[](auto& o) { o.model = "simple_net"; },
       "does not take MNIST's 28 x 28 pictures; the models that fit are mlp, "},
      {[](auto& o) { o.epochs = 0; }, "--epochs 0: must be at least 1"},
      {[](auto& o) { o.epochs = -3; }, "--epochs -3: must be at least 1"},
      {[](auto& o) { o.batch_size = 0; }, "--batch-size 0: must be at least 1"},
      {[](auto& o) { o.batch_size = -1; }, "--batch-size -1: must be at least 1"},
      {[](auto& o) { o.threads = -1; }, "--threads -1"},
      {[](auto& o) { o.threads = 5000; }, "--threads 5000: must be at least 0, and at most 1024"},
      {[](auto& o) { o.workers = -1; }, "--workers -1"},
      {[](auto& o) { o.optimizer = "rmsprop"; },
       "--optimizer rmsprop is not known; there are adam, adamw, sgd and adadelta"},
      {[](auto& o) { o.nesterov = true; }, "--nesterov needs --optimizer sgd and --momentum above 0"},
      {[](auto& o) { o.schedule = "linear"; },
       "--schedule linear is not known; there are none, step, cosine and one-cycle"},
      {[](auto& o) { o.schedule = "step", o.schedule_every = -1; }, "--schedule-every -1: must be at least 1 epoch"},
      {[](auto& o) { o.schedule_every = 3; },
       "--schedule-every and --schedule-factor belong to --schedule step; this is none"},
      {[](auto& o) { o.schedule_factor = 0; }, "--schedule-factor 0: must be above 0"},
      {[](auto& o) { o.warm_up_epochs = -1; }, "--warm-up -1: must be at least 0 epochs"},
      {[](auto& o) { o.schedule = "one-cycle", o.warm_up_epochs = 1; }, "--warm-up does not go with"},
      {[](auto& o) { o.label_smoothing = 1.5; }, "--label-smoothing 1.5: must be from 0 to 1"},
      {[](auto& o) { o.label_smoothing = 0.1, o.model = "autoencoder"; },
       "--label-smoothing is for models that classify; autoencoder has no labels"},
      {[](auto& o) { o.clip_norm = 0; }, "--clip-norm 0: must be above 0"},
      {[](auto& o) { o.learning_rate = 0; }, "--lr 0: must be above 0"},
      {[nan](auto& o) { o.learning_rate = nan; }, "--lr nan: must be above 0"},
      {[](auto& o) { o.momentum = 0.9; }, "--momentum belongs to --optimizer sgd; adam has its own"},
      {[](auto& o) { o.optimizer = "sgd", o.momentum = 1; }, "--momentum 1: must be at least 0 and below 1"},
      {[](auto& o) { o.weight_decay = -1; }, "--weight-decay -1"},
      {[](auto& o) { o.timeout = std::chrono::milliseconds(0); }, "--timeout"},
      {[](auto& o) { o.buckets.bucket_cap_bytes = 0; }, "--bucket-cap 0: must be at least 1 byte"},
      {[](auto& o) { o.checkpoint_every = -1; }, "--checkpoint-every -1: must be at least 0"},
      {[](auto& o) { o.checkpoint_every = 20; }, "--checkpoint-every needs --checkpoint-dir"},
      {[](auto& o) { o.keep_checkpoints = -1; }, "--keep-checkpoints -1: must be at least 0"},
      {[](auto& o) { o.drop_last = true, o.padding = false; }, "--drop-last and --no-padding are two ways"},
      {[](auto& o) { o.comm_hook = "zip"; }, "--comm-hook zip is not known; there are none, bf16, fp16 and topk"},
      {[](auto& o) { o.topk_density = 0.1; }, "--topk-density belongs to --comm-hook topk; this is none"},
      {[](auto& o) { o.comm_hook = "topk", o.topk_density = 0; }, "--topk-density 0: must be above 0, and at most 1"},
      {[nan](auto& o) { o.comm_hook = "topk", o.topk_density = nan; }, "--topk-density nan: must be above 0"},
      {[](auto& o) { o.comm_hook = "bf16", o.shard_optimizer = true; }, "--shard-optimizer and --comm-hook bf16"},
      {[](auto& o) { o.micro_batch_size = -1; }, "--micro-batch-size -1"},
      {[](auto& o) { o.task = "mercer", o.model = "resnet18", o.sync_batch_norm = true, o.micro_batch_size = 4; },
       "--sync-batch-norm takes statistics over all samples"},
      {[](auto& o) { o.reproducible = true, o.comm_hook = "bf16"; }, "--reproducible asks for exact sums of gradients"},
      {[](auto& o) { o.device = "gpu"; }, "--device gpu"},
      {[](auto& o) { o.tf32 = true; }, "--tf32 and --bf16 are for products on a GPU: add --device cuda"},
      {[](auto& o) { o.device = "cuda:4096"; }, "--device cuda:4096"},
      {[](auto& o) { o.resume = true; }, "--resume needs --checkpoint-dir"},
      {[](auto& o) { o = mercer(), o.model = "mlp"; },
       "--model mlp does not take colour pictures; the models that fit are simple_net"},
      {[](auto& o) { o = mercer(), o.model = "resnet19"; },
       "--model resnet19 is not known; the models for mercer are simple_net"},
      {[](auto& o) { o = mercer(), o.image_size = 0; }, "--image-size 0: must be between 1 and 1024"},
      {[](auto& o) { o = mercer(), o.image_size = 1025; }, "--image-size 1025: must be between 1 and 1024"},
      {[](auto& o) { o = mercer(), o.image_size = 32; },
       "--image-size 32: --model simple_net takes pictures of 64 x 64 only"},
      {[](auto& o) { o = mercer(), o.cache_dir = "x", o.use_cache = false; },
       "--cache-dir and --no-cache exclude each other"},
  };
  for (const Case& c : cases) {
    TrainOptions options;
    c.spoil(options);
    EXPECT_THROW(checked(options), UsageError) << c.expected;
    const std::string text = error_of([&] { checked(options); });
    test::expect_parts(text, {c.expected});
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST(Surroundings, MissingDataAndUnwritablePathsAreNamed) {
  const TemporaryFolder folder;
  TrainOptions options;
  options.data = folder / "nowhere";
  test::expect_parts(error_of([&] { check_surroundings(options); }), {"nowhere"});
  options.data.clear();
  options.json = folder / "no" / "report.json";
  test::expect_parts(error_of([&] { check_surroundings(options); }), {"report.json"});
  options.json.clear();
  replace_file(folder / "file", "");
  options.checkpoint_dir = folder / "file" / "checkpoints";
  test::expect_parts(error_of([&] { check_surroundings(options); }), {"cannot create the folder"});
}

TEST(Surroundings, AnotherRunsCheckpointsAreNotMixedWithNewOnes) {
  const TemporaryFolder folder;
  TrainOptions options;
  options.checkpoint_dir = folder / "checkpoints";
  check_surroundings(options);
  Checkpoint checkpoint;
  checkpoint.state.epoch = 3;
  write_checkpoint(options.checkpoint_dir, checkpoint);
  test::expect_parts(error_of([&] { check_surroundings(options); }), {"epoch-0003 from an earlier run; add --resume"});
  options.resume = true;
  EXPECT_EQ(error_of([&] { check_surroundings(options); }), "");
}

TEST(Agreement, SameGlobalBatchOnAnotherNumberOfRanksAgrees) {
  TrainOptions two, one;
  one.batch_size = 128;
  EXPECT_EQ(options_that_must_agree(two, 2, "d"), options_that_must_agree(one, 1, "d"));
  EXPECT_NE(options_that_must_agree(two, 2, "d"), options_that_must_agree(two, 1, "d"));
}

TEST(Agreement, AScheduleThatEndsWithTheRunBringsTheEpochsIn) {
  TrainOptions five, ten;
  ten.epochs = 10;
  EXPECT_EQ(options_that_must_agree(five, 1, "d"), options_that_must_agree(ten, 1, "d"));
  for (const char* schedule : {"cosine", "one-cycle", "step"}) {
    five.schedule = ten.schedule = schedule;
    EXPECT_NE(options_that_must_agree(five, 1, "d"), options_that_must_agree(ten, 1, "d")) << schedule;
  }
  five.schedule_every = ten.schedule_every = 4;
  EXPECT_EQ(options_that_must_agree(five, 1, "d"), options_that_must_agree(ten, 1, "d"));
}

TEST(Agreement, EveryOptionOfTheUpdateRuleCounts) {
  const TrainOptions plain = [] {
    TrainOptions options;
    options.optimizer = "sgd";
    options.momentum = 0.9;
    return options;
  }();
  const std::function<void(TrainOptions&)> changes[] = {
      [](auto& o) { o.optimizer = "adamw"; },
      [](auto& o) { o.learning_rate = 0.3; },
      [](auto& o) { o.momentum = 0.8; },
      [](auto& o) { o.nesterov = true; },
      [](auto& o) { o.weight_decay = 0.1; },
      [](auto& o) { o.schedule = "cosine"; },
      [](auto& o) { o.warm_up_epochs = 2; },
      [](auto& o) { o.clip_norm = 3; },
      [](auto& o) { o.label_smoothing = 0.1; },
      [](auto& o) { o.comm_hook = "topk"; },
      [](auto& o) { o.comm_hook = "topk", o.topk_density = 0.5; },
  };
  std::set<std::map<std::string, std::string>> seen{options_that_must_agree(plain, 1, "d")};
  for (const auto& change : changes) {
    TrainOptions other = plain;
    change(other);
    EXPECT_TRUE(seen.insert(options_that_must_agree(other, 1, "d")).second) << "change " << seen.size();
  }
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
  const TaskData data = load_task_data(options);
  EXPECT_EQ(data.train.count(), 84);
  EXPECT_EQ(data.test.count(), 21);
  EXPECT_EQ(data.train.name, "set train");
  EXPECT_TRUE(data.notes.empty());
  EXPECT_FALSE(std::filesystem::is_empty(folder / "cache"));
  replace_file(folder / "list", "harbor/harbor01.png\n");
  options.test_list = folder / "list";
  EXPECT_EQ(load_task_data(options).test.count(), 1);
  replace_file(folder / "list", "harbor/harbor77.png\n");
  test::expect_parts(error_of([&] { check_task_data(options); }), {"harbor/harbor77.png is no picture"});
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
