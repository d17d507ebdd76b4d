// Chaos: what is understood, when it strikes, and what it does then. Real processes: tests/tools/run_command_test.cc.

#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/comm/failure/chaos.h>

#include "store_test_support.h"

namespace tutti::comm::test {
namespace {

using std::chrono::milliseconds;

/// Hands that note what they are asked for, and a clock that is moved by hand.
struct FakeHands {
  std::vector<std::string> done;
  std::chrono::steady_clock::time_point time{};

  ChaosHands hands() {
    return {[this](int signal) { done.push_back("signal " + std::to_string(signal)); },
            [this](std::chrono::nanoseconds length) {
              const auto ms = std::chrono::duration_cast<milliseconds>(length).count();
              done.push_back("sleep " + std::to_string(ms));
              time += length;
            },
            [this] { return time; }};
  }
};

Environment nothing() {
  return [](const std::string&) { return std::nullopt; };
}

Environment one_variable(const std::string& name, const std::string& value) {
  return [=](const std::string& asked) { return asked == name ? std::optional(value) : std::nullopt; };
}

/// What happens to `rank` in steps 0 to 4 that take 100 ms each.
std::vector<std::string> in_five_steps(const std::string& text, int rank, const Environment& environment = nothing()) {
  CapturedLog log;
  FakeHands fake;
  Chaos chaos(text, environment, fake.hands());
  std::vector<std::string> all;
  for (int step = 0; step < 5; ++step) {
    fake.done.clear();
    chaos.begin_step(rank, step);
    for (const std::string& what : fake.done) all.push_back(std::to_string(step) + ": " + what);
    fake.time += milliseconds(100);
  }
  return all;
}

using Lines = std::vector<std::string>;

TEST(Chaos, StrikesTheRankAtTheStep) {
  EXPECT_EQ(in_five_steps("kill:rank=1,step=3", 1), (Lines{"3: signal " + std::to_string(SIGKILL)}));
  EXPECT_EQ(in_five_steps("kill:rank=1,step=3", 0), Lines{});
  EXPECT_EQ(in_five_steps("freeze:step=0,rank=2", 2), (Lines{"0: signal " + std::to_string(SIGSTOP)}));
  EXPECT_EQ(in_five_steps("delay:rank=0,ms=250,step=2", 0), (Lines{"2: sleep 250"}));
  EXPECT_EQ(in_five_steps("delay:rank=0,ms=5", 0).size(), 5U);
  EXPECT_EQ(in_five_steps("", 0), Lines{});
}

TEST(Chaos, ASlowRankTakesSoManyTimesAsLong) {
  // The first step has nothing before it to be compared with; what was slept does not count as work.
  EXPECT_EQ(in_five_steps("slow:rank=0,factor=2.5", 0),
            (Lines{"1: sleep 150", "2: sleep 150", "3: sleep 150", "4: sleep 150"}));
  EXPECT_EQ(in_five_steps("slow:rank=0,factor=3,step=4", 0), (Lines{"4: sleep 200"}));
}

TEST(Chaos, SeveralAreJoinedBySemicolons) {
  EXPECT_EQ(in_five_steps("delay:rank=0,ms=7,step=1;delay:rank=1,ms=8;delay:rank=0,ms=9,step=3", 0),
            (Lines{"1: sleep 7", "3: sleep 9"}));
}

TEST(Chaos, KillsAndFreezesInTheFirstLifeOnly) {
  for (const auto& [name, value] : {std::pair("TORCHELASTIC_RESTART_COUNT", "1"), std::pair("TUTTI_WORKER", "0.1.2")}) {
    EXPECT_EQ(in_five_steps("kill:rank=1,step=3;freeze:rank=1,step=2", 1, one_variable(name, value)), Lines{}) << name;
    EXPECT_EQ(in_five_steps("delay:rank=1,step=3,ms=1", 1, one_variable(name, value)).size(), 1U);
  }
  EXPECT_EQ(in_five_steps("kill:rank=1,step=3", 1, one_variable("TUTTI_WORKER", "3.1.0")).size(), 1U);
}

TEST(Chaos, SaysWhatItDoesOnce) {
  CapturedLog log;
  FakeHands fake;
  Chaos chaos("delay:rank=4,ms=1", nothing(), fake.hands());
  for (int step = 7; step < 10; ++step) chaos.begin_step(4, step);
  EXPECT_EQ(log.wait_for("chaos"), "chaos: rank 4 waits at step 7 (delay:rank=4,ms=1)\n");
}

TEST(Chaos, WhatIsNotUnderstoodIsNamed) {
  const struct {
    const char *text, *said;
  } cases[] = {
      {"explode:rank=1,step=2", "\"explode\" is no kind of it"},
      {"kill", "\"kill\" is no kind of it"},
      {"kill:rank=1", "step= is missing"},
      {"kill:step=1", "rank= is missing"},
      {"kill:rank=1,step=2,ms=3", "\"ms\" means nothing there"},
      {"kill:rank=1,step", "\"step\" has no \"=\""},
      {"kill:rank=1,rank=2,step=2", "rank is there twice"},
      {"kill:rank=-1,step=2", "rank=-1 is no number that makes sense there"},
      {"kill:rank=1,step=2x", "step=2x is no number"},
      {"delay:rank=1,ms=1.5", "ms=1.5 is no whole number"},
      {"delay:rank=1", "ms= is missing"},
      {"slow:rank=1,factor=0.5", "factor=0.5 is no number that makes sense"},
      {"kill:rank=1,step=2;", "is no kind of it"},
  };
  for (const auto& c : cases) {
    const std::string said = text_of(ErrorCode::InvalidArgument, [&] { Chaos(c.text, nothing()); });
    expect_parts(said, {c.said, "known are kill:rank=R,step=S"});
  }
}

}  // namespace
}  // namespace tutti::comm::test
