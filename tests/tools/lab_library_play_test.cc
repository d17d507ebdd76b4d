#include <gtest/gtest.h>
#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/library_call.h>
#include <tutti/tools/labs/show/library_play.h>
#include <tutti/tools/labs/show/play_recorder.h>
#include <tutti/tools/labs/show/side.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

namespace tutti::labs {
namespace {

using Words = std::vector<std::uint64_t>;

Case posed(int world_size, std::size_t count, int root = 0) {
  Case made;
  made.world_size = world_size;
  made.count = count;
  made.root = root;
  made.network.beta = 1e-6;
  made.network.gamma = 1e-7;
  return made;
}

std::uint64_t sum_of(int world_size, std::size_t index) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < world_size; ++rank) sum += play_word(rank, index, world_size);
  return sum;
}

/// What each rank's `buffer` holds when all events are over.
std::vector<Words> at_the_end(const Play& play, const std::string& buffer) {
  std::size_t index = 0;
  while (play.buffers.at(index).name != buffer) ++index;
  std::vector<Words> held = play.buffers[index].initial;
  std::vector<const PlayEvent*> by_end;
  for (const PlayEvent& event : play.events) by_end.push_back(&event);
  std::stable_sort(by_end.begin(), by_end.end(), [](auto* a, auto* b) { return a->end < b->end; });
  for (const PlayEvent* event : by_end) {
    for (const PlaySnapshot& snapshot : event->after) {
      if (static_cast<std::size_t>(snapshot.buffer) != index) continue;
      Words& words = held[static_cast<std::size_t>(event->rank)];
      std::copy(snapshot.words.begin(), snapshot.words.end(),
                words.begin() + static_cast<std::ptrdiff_t>(snapshot.offset));
    }
  }
  return held;
}

/// Every message has two ends with the same times, and every rank is busy, waiting or done at any time.
void expect_consistent(const Play& play) {
  std::map<std::int64_t, std::vector<const PlayEvent*>> ends;
  for (const PlayEvent& event : play.events) {
    EXPECT_LE(event.begin, event.end);
    if (event.message >= 0) ends[event.message].push_back(&event);
  }
  for (const auto& [message, pair] : ends) {
    ASSERT_EQ(pair.size(), 2u) << message;
    EXPECT_EQ(pair[0]->rank, pair[1]->peer);
    EXPECT_EQ(pair[0]->begin, pair[1]->begin);
    EXPECT_EQ(pair[0]->end, pair[1]->end);
  }
  const show::Stops stops({&play});
  show::Cells cells(play.world_size);
  const show::Side side = show::make_side(play, stops, cells);
  for (int rank = 0; rank < play.world_size; ++rank) {
    double waited = 0;
    for (const show::Shown& event : side.events) {
      if (event.kind == PlayEvent::Kind::Wait && event.rank == rank) waited += event.end - event.begin;
    }
    EXPECT_NEAR(waited, side.ranks[static_cast<std::size_t>(rank)].waiting, 1e-12) << "rank " << rank;
  }
}

TEST(PlayWord, HoldsAValueAndWhoHasContributed) {
  const PlayContent own = play_content(play_word(2, 7, 5), 5);
  EXPECT_EQ(own.value, 37u);
  EXPECT_EQ(own.times, (std::vector<unsigned>{0, 0, 1, 0, 0}));
  const PlayContent sum = play_content(play_word(0, 3, 16) + 2 * play_word(15, 3, 16), 16);
  EXPECT_EQ(sum.value, 13u + 2 * 163u);
  EXPECT_EQ(sum.times[0], 1u);
  EXPECT_EQ(sum.times[15], 2u);
  EXPECT_TRUE(play_content(play_word(3, 0, 17), 17).times.empty());  // too many to count
  EXPECT_EQ(play_content(play_word(0, 0, 1), 1).times, std::vector<unsigned>{1});
}

TEST(LibraryPlay, AllReduceByEveryAlgorithmInEveryWorld) {
  for (const char* algorithm : {"", "ring", "recursive_doubling", "rabenseifner", "double_tree"}) {
    for (int world_size = 1; world_size <= kMostPlayRanks; ++world_size) {
      SCOPED_TRACE(std::string(algorithm) + " " + std::to_string(world_size));
      const Play play = library_play("all_reduce", posed(world_size, 11), algorithm);
      for (const Words& words : at_the_end(play, "data")) {
        ASSERT_EQ(words.size(), 11u);
        for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], sum_of(world_size, i));
      }
      expect_consistent(play);
    }
  }
}

TEST(LibraryPlay, ReduceGivesTheRootAloneTheSum) {
  for (const char* algorithm : {"", "binomial", "chain"}) {
    for (int root = 0; root < 5; ++root) {
      const Play play = library_play("reduce", posed(5, 3, root), algorithm);
      EXPECT_EQ(play.root, root);
      const std::vector<Words> output = at_the_end(play, "output");
      for (int rank = 0; rank < 5; ++rank) {
        const Words& words = output[static_cast<std::size_t>(rank)];
        EXPECT_EQ(words, rank == root ? (Words{sum_of(5, 0), sum_of(5, 1), sum_of(5, 2)}) : Words{});
        EXPECT_EQ(at_the_end(play, "input")[static_cast<std::size_t>(rank)][0], play_word(rank, 0, 5));
      }
      expect_consistent(play);
    }
  }
}

TEST(LibraryPlay, BroadcastGivesAllTheRootsElements) {
  for (const char* algorithm : {"", "binomial", "chain", "double_tree"}) {
    const Play play = library_play("broadcast", posed(6, 8, 4), algorithm);
    for (const Words& words : at_the_end(play, "data")) {
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(words[i], play_word(4, i, 6)) << algorithm;
    }
    expect_consistent(play);
  }
}

TEST(LibraryPlay, ShiftMovesEachRanksElementsToTheNext) {
  for (const int world_size : {1, 2, 7}) {
    const Play play = library_play("shift", posed(world_size, 2));
    const std::vector<Words> incoming = at_the_end(play, "incoming");
    for (int rank = 0; rank < world_size; ++rank) {
      const int from = (rank + world_size - 1) % world_size;
      EXPECT_EQ(incoming[static_cast<std::size_t>(rank)],
                (Words{play_word(from, 0, world_size), play_word(from, 1, world_size)}));
    }
  }
}

TEST(LibraryPlay, TensorsAreReducedInBuckets) {
  Case made = posed(3, 0);
  made.counts = {3, 5, 2, 4};
  made.parameter = 64;  // bytes: {3, 5}, {2, 4}
  const Play play = library_play("all_reduce_many", made, "recursive_doubling");
  EXPECT_EQ(show::library_run("all_reduce_many", made, "recursive_doubling").schedules[0].steps.size(),
            2 * 2u);  // as in one all_reduce, twice
  for (std::size_t tensor = 0; tensor < 4; ++tensor) {
    for (const Words& words : at_the_end(play, "tensors[" + std::to_string(tensor) + "]")) {
      ASSERT_EQ(words.size(), made.counts[tensor]);
      for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i], sum_of(3, i));
    }
  }
}

TEST(LibraryPlay, TimesAndCountsAreTheSimulators) {
  const Case made = posed(6, 24);
  const Play play = library_play("all_reduce", made, "ring");
  comm::Problem problem;
  problem.world_size = 6;
  problem.count = 24;
  const comm::Simulation simulation = comm::simulate(problem, 8, "ring", network_model(made.network));
  std::size_t messages = 0;
  for (const PlayEvent& event : play.events) messages += event.kind == PlayEvent::Kind::Send ? 1 : 0;
  EXPECT_EQ(messages, 60u);
  for (std::size_t rank = 0; rank < 6; ++rank) EXPECT_DOUBLE_EQ(play.finish[rank], simulation.finishes[rank]);
  EXPECT_GT(play.bound_seconds, 0);
  EXPECT_LT(play.bound_seconds, play.finish[0]);
}

TEST(LibraryPlay, AMessageCarriesWhatItsSenderHeld) {
  const Play play = library_play("reduce", posed(2, 2, 1));
  const auto sent = std::find_if(play.events.begin(), play.events.end(),
                                 [](const PlayEvent& event) { return event.kind == PlayEvent::Kind::Send; });
  ASSERT_NE(sent, play.events.end());
  EXPECT_EQ(sent->words, (Words{play_word(0, 0, 2), play_word(0, 1, 2)}));
}

TEST(LibraryPlay, WhatCannotBeShownIsRefused) {
  EXPECT_THROW(library_play("all_reduce", posed(kMostPlayRanks + 1, 1)), std::invalid_argument);
  EXPECT_THROW(library_play("all_reduce", posed(0, 1)), std::invalid_argument);
  EXPECT_THROW(library_play("latency", posed(2, 1)), std::invalid_argument);
  EXPECT_THROW(library_play("all_reduce", posed(2, 1), "nothing"), comm::Error);
  EXPECT_TRUE(library_can_play("barrier"));
  EXPECT_FALSE(library_can_play("latency"));
}

Bytes word_of(int rank) {
  const std::uint64_t word = play_word(rank, 0, 2);
  Bytes bytes(sizeof word);
  std::memcpy(bytes.data(), &word, sizeof word);
  return bytes;
}

/// shift() of one element on two ranks, on a network where sends wait for their receiver.
class PlayRecorderTest : public testing::Test {
 protected:
  static Question posed() {
    Question question{"shift", {}, {}, {}};
    question.posed.world_size = 2;
    question.posed.network = {1, 0.5, 0, 0, 0, 1};
    for (const int rank : {0, 1})
      question.buffers.push_back({{"outgoing", word_of(rank), true}, {"incoming", Bytes(8)}});
    return question;
  }

  Network::Operation send(int rank) {
    recorder.sent(network.posted(), word_of(rank));
    return network.send(rank, 1 - rank, 0, word_of(rank), 8).operation;
  }

  /// Of a run that ended with the incident, while both ranks were in their first call.
  Play taken(const Incident& incident) {
    recorder.ended(network);
    RunResult result;
    result.incident = incident;
    result.finish = {0, 0};
    result.calls.assign(2, std::vector<CallTimes>(1));
    return recorder.take(result);
  }

  Question question = posed();
  Network network{2, question.posed.network};
  PlayRecorder recorder{question};
};

TEST_F(PlayRecorderTest, MessagesWaitsAndMemory) {
  const Network::Operation receive = network.receive(1, 0, 0, 8, 8).operation;
  network.wait(1, receive);
  network.wait(0, send(0));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(network.step().kind, Network::Event::Kind::Ended);
  recorder.waited(1, 0, 0, network.clock(1), "recv of 1 element from rank 0");
  recorder.holds(1, 1, network.take_message(receive), network.clock(1));
  recorder.holds(1, 7, word_of(0), 0);  // there is no such buffer
  recorder.ended(network);
  RunResult result;
  result.finish = {network.clock(0), network.clock(1)};
  const Play play = recorder.take(result);

  EXPECT_EQ(play.title, "Your shift");
  EXPECT_EQ(play.outcome, Play::Outcome::Right);
  EXPECT_EQ(play.finish, (std::vector<double>{5, 5}));
  ASSERT_EQ(play.buffers.size(), 3u);
  EXPECT_EQ(play.buffers[0].initial[1][0], play_word(1, 0, 2));
  ASSERT_EQ(play.events.size(), 4u);
  for (const PlayEvent& event : play.events) {
    if (event.kind == PlayEvent::Kind::Copy) {
      EXPECT_EQ(event.after[0].words, std::vector{play_word(0, 0, 2)});
    } else {
      EXPECT_EQ(event.end, 5);
    }
    if (event.kind == PlayEvent::Kind::Send) {
      EXPECT_EQ(event.words, std::vector{play_word(0, 0, 2)});
    }
  }
}

TEST_F(PlayRecorderTest, ADeadlockKeepsItsTraceAndItsCycle) {
  for (const int rank : {0, 1}) network.wait(rank, send(rank));
  ASSERT_EQ(network.step().kind, Network::Event::Kind::Stuck);
  const Play play = taken({diagnosis::kDeadlock, network.explain_stuck().text, -1});

  EXPECT_EQ(play.outcome, Play::Outcome::Deadlock);
  ASSERT_EQ(play.deadlock.size(), 2u);
  EXPECT_EQ(play.deadlock[0].peer, play.deadlock[1].rank);
  EXPECT_EQ(play.deadlock[1].peer, play.deadlock[0].rank);
  EXPECT_EQ(play.finish, (std::vector<double>{kNever, kNever}));
  ASSERT_EQ(play.events.size(), 2u);  // nothing has passed
  for (const PlayEvent& event : play.events) {
    EXPECT_EQ(event.kind, PlayEvent::Kind::Wait);
    EXPECT_EQ(event.end, kNever);
  }
}

TEST_F(PlayRecorderTest, ACrashIsNoDeadlockThoughOthersWait) {
  network.wait(0, send(0));
  const Play play = taken({diagnosis::kCrash, "rank 1 was killed", 1});
  EXPECT_EQ(play.outcome, Play::Outcome::Failed);
  EXPECT_EQ(play.explanation, "rank 1 was killed");
  EXPECT_TRUE(play.deadlock.empty());
}

TEST_F(PlayRecorderTest, AFloodIsCutAndCounted) {
  for (int i = 0; i < 100000; ++i) recorder.combined(0, 8, i, i + 1);
  recorder.ended(network);
  const Play play = recorder.take({});
  EXPECT_LE(play.events.size(), 4 * kMostPlayEvents);
  EXPECT_EQ(play.events.size() + play.events_left_out, 100000u);
}

}  // namespace
}  // namespace tutti::labs
