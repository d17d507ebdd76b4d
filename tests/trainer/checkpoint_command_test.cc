// Checkpoints of whole processes. Signals to a training run: a checkpoint of the same step on all ranks, and a clean
// end.

#include <signal.h>
#include <tutti/tests/support/stolen_time.h>
#include <tutti/tests/trainer/small_run.h>
#include <tutti/trainer/checkpoint/checkpoint.h>

#include <chrono>

namespace tutti::trainer {
namespace {

using test::ExitStatus;
using test::Finished;
using test::Processes;
using namespace std::chrono_literals;

constexpr ExitStatus kTerminated{.by_signal = true, .code = SIGTERM};
constexpr auto kLimit = 3s;  // for checkpoint and end

class CheckpointSignals : public SmallRun {
 protected:
  using Clock = std::chrono::steady_clock;

  void expect_soon_after(Clock::time_point asked) const {
    const auto now = Clock::now();
    EXPECT_LT(now - asked - stolen_.between(asked, now), kLimit);
  }
  /// Continues the stopped run to the end of its epoch and compares with one that was never stopped.
  void expect_good_continuation() {
    const auto newest = newest_checkpoint(dir());
    ASSERT_TRUE(newest.has_value());
    const CheckpointState state = read_checkpoint(*newest).state;
    const int epochs = state.epoch + 1;
    const Finished resumed = ended(
        kDone,
        run(saving({"--nproc", "2", "--epochs", std::to_string(epochs), "--resume", "--json", path("resumed.json")})));
    test::expect_parts(resumed.out, {"from " + newest->string()});
    expect_equal(outcome("resumed.json"), uninterrupted(epochs));
  }
  /// The folder that the run says it stopped at.
  static std::string stopped_at(const std::string& out) {
    const std::size_t end = out.find(" is complete: go on from there with --resume");
    const std::size_t begin = out.rfind("; ", end);
    return end == std::string::npos ? out : out.substr(begin + 2, end - begin - 2);
  }

  const test::StolenTime stolen_;
};

TEST_F(CheckpointSignals, SigtermToTheLauncherEndsAllRanksCleanly) {
  Processes job(alone(saving({"--nproc", "2", "--epochs", "1000000"})));
  ASSERT_TRUE(job.wait_for_output(0, "epoch 2/")) << job.err(0);
  const auto asked = Clock::now();
  job.kill(0, SIGTERM);
  EXPECT_EQ(job.wait(0), kStoppedWell) << job.err(0);
  expect_soon_after(asked);
  EXPECT_EQ(stopped_at(job.out(0)), newest_checkpoint(dir())->string());
  test::expect_parts(job.err(0), {"stopped by SIGTERM"});
  test::expect_absent(job.err(0), {"SIGKILL"});
  expect_good_continuation();
}

TEST_F(CheckpointSignals, SigtermToOneRankEndsAllRanksCleanly) {
  for (const int asked_rank : {0, 1}) {
    Processes ranks(ranks_of(saving({"--epochs", "1000000", "--resume"})));
    ASSERT_TRUE(ranks.wait_for_output(0, "\nepoch ")) << ranks.err(0);
    const auto asked = Clock::now();
    ranks.kill(asked_rank, SIGTERM);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(ranks.wait(rank), kStoppedWell) << ranks.err(rank);
      EXPECT_EQ(ranks.err(rank), "");
    }
    expect_soon_after(asked);
    EXPECT_EQ(stopped_at(ranks.out(0)), newest_checkpoint(dir())->string());
  }
  expect_good_continuation();
}

// What a scheduler does that signals every process of a job, while the launcher passes its own signal on.
TEST_F(CheckpointSignals, TheSameSigtermByTwoWaysIsOneRequest) {
  Processes ranks(ranks_of(saving({"--epochs", "1000000"})));
  ASSERT_TRUE(ranks.wait_for_output(0, "epoch 2/")) << ranks.err(0);
  for (const int rank : {0, 1, 1, 0}) ranks.kill(rank, SIGTERM);
  for (const int rank : {0, 1}) EXPECT_EQ(ranks.wait(rank), kStoppedWell) << ranks.err(rank);
  EXPECT_EQ(stopped_at(ranks.out(0)), newest_checkpoint(dir())->string());
}

TEST_F(CheckpointSignals, SigusrWritesACheckpointAndTrainingGoesOn) {
  Processes job(alone(command({"--nproc", "2", "--epochs", "1000000", "--checkpoint-dir", dir().string()})));
  ASSERT_TRUE(job.wait_for_output(0, "epoch 1/")) << job.err(0);
  // A request that falls between the last step of an epoch and its checkpoint is served by that; so ask again.
  for (int i = 0; i < 100 && job.out(0).find("is complete, as asked for") == std::string::npos; ++i) {
    job.kill(0, SIGUSR1);
    (void)job.wait_for_output(0, "is complete, as asked for", 100ms);
  }
  ASSERT_NE(job.out(0).find("is complete, as asked for"), std::string::npos) << job.out(0);
  const std::string before = job.out(0);
  const auto epochs = std::count(before.begin(), before.end(), '\n');
  ASSERT_TRUE(job.wait_for_output(0, "epoch " + std::to_string(epochs + 3) + "/")) << job.err(0);
  job.kill(0, SIGTERM);
  EXPECT_EQ(job.wait(0), kStoppedWell) << job.err(0);
}

TEST_F(CheckpointSignals, ASecondSigtermEndsTheRankAtOnce) {
  Processes ranks(ranks_of(saving({"--epochs", "1000000"})));
  ASSERT_TRUE(ranks.wait_for_output(0, "epoch 2/")) << ranks.err(0);
  ranks.kill(1, SIGSTOP);  // rank 0 can agree with nobody
  std::optional<ExitStatus> end;
  for (int i = 0; i < 300 && !end; ++i) {
    ranks.kill(0, SIGTERM);
    end = ranks.wait(0, 100ms);
  }
  EXPECT_EQ(end, kTerminated) << ranks.err(0);
  ranks.kill(1, SIGKILL);
}

TEST_F(CheckpointSignals, WithoutAFolderSigtermEndsTheRankAtOnce) {
  Processes rank(ranks_of(command({"--epochs", "1000000"}), 1));
  ASSERT_TRUE(rank.wait_for_output(0, "epoch 1/")) << rank.err(0);
  rank.kill(0, SIGTERM);
  EXPECT_EQ(rank.wait(0), kTerminated);
}

TEST_F(CheckpointSignals, ALauncherThatRestartsGoesOnFromTheCheckpoint) {
  // The first life would never end; the second one ends with the epoch that it begins in.
  const std::string first = "exec " + in_one_line(saving({"--epochs", "1000000", "--resume"}));
  std::string second = resuming_in_shell("resumed.json");
  second.erase(second.find("--nproc 2"), 9);
  const std::string line = "test $RANK = 1 && echo rank 1 is $$.; if test $TORCHELASTIC_RESTART_COUNT = 0; then " +
                           first + "; else " + second + "; fi";
  Processes job(alone({TUTTI_PROGRAM, "run", "-n", "2", "--max-restarts", "1", "--no-label", "--", "sh", "-c", line}));
  ASSERT_TRUE(job.wait_for_output(0, "epoch 2/")) << job.err(0);
  const std::string out = job.out(0);
  const std::string mark = "rank 1 is ";
  ::kill(std::stoi(out.substr(out.find(mark) + mark.size())), SIGTERM);
  EXPECT_EQ(job.wait(0), kDone) << job.err(0);
  test::expect_parts(job.err(0), {"exited with status 143"});
  test::expect_parts(job.out(0), {"resumed after epoch "});
  const Outcome resumed = outcome("resumed.json");
  expect_equal(resumed, uninterrupted(static_cast<int>(resumed.epochs.size())));
}

// Checkpoints on disks that are full or cannot be written.

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
    test::expect_parts(done.err, {rank + std::string("cannot write the checkpoint ") + dir().string()});
  }
  test::expect_parts(done.err, {"optimizer.safetensors: File too large", "there is no complete checkpoint yet"});
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
  const Finished done = ended(kDone, run_with_mounts(script));
  test::expect_parts(done.err,
                     {"No space left on device",
                      "the newest complete checkpoint is " + (dir() / "epoch-0000-step-000040").string(), "status 1"});
  test::expect_absent(done.out, {".incomplete"});
  test::expect_parts(done.out, {"resumed after epoch 0 and step 40 of 60"});
  expect_equal(outcome("resumed.json"), uninterrupted(3));
}

TEST_F(CheckpointDisk, AReadOnlyFolderIsNamedBeforeTrainingBegins) {
  if (!may_mount()) GTEST_SKIP() << "mounting is not permitted here";
  std::filesystem::create_directories(dir());
  const std::string folder = dir().string();
  const Finished done =
      ended(kFailed, run_with_mounts("mount --bind " + folder + " " + folder + " && mount -o remount,ro,bind " +
                                     folder + " && exec " + in_one_line(saving({"--epochs", "3", "--nproc", "2"}))));
  test::expect_parts(done.err, {folder, "Read-only file system"});
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
  const Finished done = ended(kDone, run_with_mounts(script));
  const auto says = [&](const std::string& what) { return done.err.find(what + " " + folder) != std::string::npos; };
  const bool writing = says("cannot write the checkpoint");
  const bool deleting = says("cannot delete the old checkpoint") || says("cannot delete the folder");  // an older one
  EXPECT_TRUE(writing || deleting) << done.err;
  const bool between_writes = done.err.find("Read-only file system") != std::string::npos;
  const bool within_a_write = done.err.find("No such file or directory") != std::string::npos;
  EXPECT_TRUE(between_writes || within_a_write) << done.err;
  test::expect_parts(done.err, {"status 1"});
  test::expect_parts(done.out, {"resumed after epoch "});
  const Outcome resumed = outcome("resumed.json");
  expect_equal(resumed, uninterrupted(static_cast<int>(resumed.epochs.size())));
}

}  // namespace
}  // namespace tutti::trainer
