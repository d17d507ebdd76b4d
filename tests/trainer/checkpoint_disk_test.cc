// Checkpoints on disks that are full or cannot be written.
#include <tutti/tests/trainer/small_run.h>
#include <tutti/trainer/checkpoint/checkpoint.h>

namespace tutti::trainer {
namespace {

using test::Finished;

class CheckpointDisk : public SmallRun {
 protected:
  Finished run_script(const std::string& script) const { return run({"sh", "-c", script}); }
  /// In a mount name space of its own, which ends with the script.
  Finished run_with_mounts(const std::string& script) const { return run({"unshare", "-m", "sh", "-c", script}); }
  bool may_mount() const {
    std::filesystem::create_directories(folder_ / "probe");
    return run_with_mounts("mount -t tmpfs tmpfs " + path("probe")).status == kDone;
  }
};

TEST_F(CheckpointDisk, AFileSizeLimitIsNamedOnEveryRankAndNothingHalfStays) {
  // 512 bytes each: room for the parameters (159 KB), not for the optimizer (319 KB)
  const Finished done = run_script("ulimit -f 400; exec " + in_one_line(saving({"--epochs", "3", "--nproc", "2"})));
  EXPECT_EQ(done.status, kFailed) << done.err;
  for (const char* rank : {"rank 0: ", "rank 1: "}) {
    EXPECT_NE(done.err.find(rank + std::string("cannot write the checkpoint ") + dir().string()), std::string::npos)
        << done.err;
  }
  EXPECT_NE(done.err.find("optimizer.safetensors: File too large"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("there is no complete checkpoint yet"), std::string::npos) << done.err;
  EXPECT_TRUE(checkpoints_in(dir()).empty());
  for (const auto& entry : std::filesystem::directory_iterator(dir())) EXPECT_EQ(entry.path().filename(), ".lock");
}

TEST_F(CheckpointDisk, AFullDiskIsNamedAndWithRoomTheRunGoesOn) {
  if (!may_mount()) GTEST_SKIP() << "mounting is not permitted here";
  std::filesystem::create_directories(dir());
  const std::string train = in_one_line(saving({"--epochs", "3", "--nproc", "2", "--keep-checkpoints", "0"}));
  const std::string script = "mount -t tmpfs -o size=1200k tmpfs " + dir().string() + " && { " + train +
                             "; echo status $? >&2; ls -a " + dir().string() + "; mount -o remount,size=100m " +
                             dir().string() + " && exec " + train + "--resume --json " + path("resumed.json") + "; }";
  const Finished done = run_with_mounts(script);
  EXPECT_EQ(done.status, kDone) << done.err;
  EXPECT_NE(done.err.find("No space left on device"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("the newest complete checkpoint is " + (dir() / "epoch-0000-step-000040").string()),
            std::string::npos)
      << done.err;
  EXPECT_NE(done.err.find("status 1"), std::string::npos) << done.err;
  EXPECT_EQ(done.out.find(".incomplete"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("resumed after epoch 0 and step 40 of 60"), std::string::npos) << done.out;
  expect_equal(outcome("resumed.json"), uninterrupted(3));
}

TEST_F(CheckpointDisk, AReadOnlyFolderIsNamedBeforeTrainingBegins) {
  if (!may_mount()) GTEST_SKIP() << "mounting is not permitted here";
  std::filesystem::create_directories(dir());
  const std::string folder = dir().string();
  const Finished done = run_with_mounts("mount --bind " + folder + " " + folder + " && mount -o remount,ro,bind " +
                                        folder + " && exec " + in_one_line(saving({"--epochs", "3", "--nproc", "2"})));
  EXPECT_EQ(done.status, kFailed);
  EXPECT_NE(done.err.find(folder), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("Read-only file system"), std::string::npos) << done.err;
  EXPECT_EQ(done.out, "");
}

TEST_F(CheckpointDisk, AFolderThatBecomesReadOnlyIsNamedAndWhatItHoldsIsUsed) {
  if (!may_mount()) GTEST_SKIP() << "mounting is not permitted here";
  std::filesystem::create_directories(dir());
  const std::string folder = dir().string();
  const std::string train = in_one_line(saving({"--epochs", "1000000", "--nproc", "2"}));
  // The run holds .lock open for writing, so that its disk cannot be remounted: a read-only one is laid over it.
  const std::string over = path("over");
  const std::string script =
      "mkdir " + over + " && mount --bind " + over + " " + over + " && mount -o remount,ro,bind " + over +
      " && mount -t tmpfs tmpfs " + folder + " && { " + train + " & until ls " + folder +
      " | grep -q epoch-0; do sleep 0.01; done; mount --bind " + over + " " + folder +
      " || kill $!; wait $!; echo status $? >&2; umount " + folder + "; " + resuming_in_shell("resumed.json") + "; }";
  const Finished done = run_with_mounts(script);
  EXPECT_EQ(done.status, kDone) << done.err;
  const auto says = [&](const std::string& what) { return done.err.find(what + " " + folder) != std::string::npos; };
  const bool writing = says("cannot write the checkpoint");
  const bool deleting = says("cannot delete the old checkpoint") || says("cannot delete the folder");  // an older one
  EXPECT_TRUE(writing || deleting) << done.err;
  const bool between_writes = done.err.find("Read-only file system") != std::string::npos;
  const bool within_a_write = done.err.find("No such file or directory") != std::string::npos;
  EXPECT_TRUE(between_writes || within_a_write) << done.err;
  EXPECT_NE(done.err.find("status 1"), std::string::npos) << done.err;
  EXPECT_NE(done.out.find("resumed after epoch "), std::string::npos) << done.out;
  const Outcome resumed = outcome("resumed.json");
  expect_equal(resumed, uninterrupted(static_cast<int>(resumed.epochs.size())));
}

}  // namespace
}  // namespace tutti::trainer
