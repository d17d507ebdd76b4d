#include <gtest/gtest.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/show/play_recorder.h>

#include <cstring>

namespace tutti::labs {
namespace {

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
