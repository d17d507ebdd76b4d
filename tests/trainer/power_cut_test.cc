// All ranks of a training are killed at random moments, again and again: what they leave can always be gone on with,
// and the end is as if nothing had happened.
//
// TUTTI_POWER_CUTS=200 sets how many times (6), TUTTI_POWER_CUT_SEED the moments (1).
#include <signal.h>
#include <tutti/tests/trainer/small_run.h>
#include <tutti/trainer/checkpoint/checkpoint.h>

#include <chrono>
#include <iostream>
#include <random>
#include <thread>

namespace tutti::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using test::Finished;
using test::Processes;
using namespace std::chrono_literals;

constexpr int kEpochs = 40;

class PowerCut : public SmallRun {
 protected:
  std::chrono::microseconds up_to(int microseconds) {
    return std::chrono::microseconds(std::uniform_int_distribution<int>(0, microseconds)(random_));
  }
  bool something_is_being_written() const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(dir(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".incomplete") || name.ends_with(".deleted")) return true;
    }
    return false;
  }
  /// Half of the time any moment, half of the time one around a write.
  void wait_for_the_moment() {
    std::this_thread::sleep_for(up_to(150'000));
    if (std::bernoulli_distribution(0.5)(random_)) return;
    for (const auto limit = Clock::now() + 2s; !something_is_being_written() && Clock::now() < limit;) {
    }
    std::this_thread::sleep_for(up_to(3'000));
  }
  Words going_on() const {
    return saving({"--epochs", std::to_string(kEpochs), "--resume", "--json", path("run.json")});
  }
  /// Starts or continues the run and kills it; false if it was done before.
  bool run_until_the_cut() {
    Processes ranks(ranks_of(going_on()));
    EXPECT_TRUE(ranks.wait_for_output(0, "training mlp", 120s)) << ranks.err(0);
    wait_for_the_moment();
    const bool done = ranks.wait(0, 0ms).has_value();
    for (const int rank : {0, 1}) ranks.kill(rank, SIGKILL);
    for (const int rank : {0, 1}) EXPECT_TRUE(ranks.wait(rank).has_value());
    test::expect_absent(ranks.out(0), {"WARNING"});
    EXPECT_EQ(ranks.err(0) + ranks.err(1), "");
    return !done;
  }
  void finish_and_compare(const Outcome& whole) {
    const Finished done = ended(kDone, run(joined(going_on(), {"--nproc", "2"})));
    test::expect_absent(done.out, {"WARNING"});
    expect_equal(outcome("run.json"), whole);
  }

  std::mt19937 random_{static_cast<unsigned>(number_from_environment("TUTTI_POWER_CUT_SEED", 1))};
};

TEST_F(PowerCut, TheNewestCheckpointAlwaysLoadsAndTheEndIsTheSame) {
  const Outcome whole = uninterrupted(kEpochs);
  const int cuts = number_from_environment("TUTTI_POWER_CUTS", 6);
  int trainings = 1;
  int while_writing = 0;
  CheckpointPosition reached;
  for (int cut = 0; cut < cuts && !HasFailure();) {
    if (!run_until_the_cut()) {  // it came to its end first: once more from the beginning
      finish_and_compare(whole);
      std::filesystem::remove_all(dir());
      reached = {};
      ++trainings;
      continue;
    }
    ++cut;
    while_writing += something_is_being_written() ? 1 : 0;
    const auto newest = newest_checkpoint(dir());
    ASSERT_TRUE(newest || reached == CheckpointPosition{}) << "cut " << cut;
    if (!newest) continue;
    const CheckpointPosition position = read_checkpoint(*newest).state.position();
    EXPECT_TRUE(position >= reached) << "cut " << cut;
    reached = position;
  }
  finish_and_compare(whole);
  std::cout << cuts << " power cuts, " << while_writing << " of them in the middle of a write, over " << trainings
            << " trainings\n";
}

}  // namespace
}  // namespace tutti::trainer
