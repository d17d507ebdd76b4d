#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/network.h>

namespace tutti::labs {
namespace {

using Kind = Network::Event::Kind;

NetworkSettings unit_network(std::size_t eager_bytes = 1000) {
  NetworkSettings settings;
  settings.alpha = 1;
  settings.beta = 0.1;
  settings.eager_bytes = eager_bytes;
  return settings;
}

Network::Operation send_and_wait(Network& network, int rank, int to, std::size_t bytes) {
  const Network::Operation made =
      network.send(rank, to, 0, Bytes(bytes, static_cast<unsigned char>(rank)), 1).operation;
  network.wait(rank, made);
  return made;
}
Network::Operation receive_and_wait(Network& network, int rank, int from, std::size_t bytes) {
  const Network::Operation made = network.receive(rank, from, 0, bytes, 1).operation;
  network.wait(rank, made);
  return made;
}

TEST(LabNetwork, AMessageTakesAlphaAndItsBytes) {
  Network network(2, unit_network());
  send_and_wait(network, 0, 1, 20);
  const Network::Operation receive = receive_and_wait(network, 1, 0, 20);
  const Network::Event first = network.step();
  EXPECT_EQ(first.kind, Kind::Ended);
  const Network::Event second = network.step();
  EXPECT_EQ(second.kind, Kind::Ended);
  EXPECT_NE(first.rank, second.rank);
  EXPECT_DOUBLE_EQ(network.clock(0), 3);
  EXPECT_DOUBLE_EQ(network.clock(1), 3);
  EXPECT_EQ(network.source_of(receive), 0);
  EXPECT_EQ(network.take_message(receive), Bytes(20, 0));
}

TEST(LabNetwork, AReceiverTakesOneMessageAtATime) {
  Network network(3, unit_network());
  send_and_wait(network, 1, 0, 0);
  send_and_wait(network, 2, 0, 0);
  receive_and_wait(network, 0, 1, 0);
  for (int ended = 0; ended < 3; ++ended) EXPECT_EQ(network.step().kind, Kind::Ended);
  EXPECT_DOUBLE_EQ(network.clock(1), 1);
  EXPECT_DOUBLE_EQ(network.clock(2), 2);
}

TEST(LabNetwork, TwoLongSendsWaitForEachOtherAndThatIsSaid) {
  Network network(2, unit_network(0));
  send_and_wait(network, 0, 1, 8);
  send_and_wait(network, 1, 0, 8);
  EXPECT_EQ(network.step().kind, Kind::Stuck);
  const Objection why = network.explain_stuck();
  EXPECT_EQ(why.diagnosis, diagnosis::kDeadlock);
  test::expect_parts(why.text, {"0 waits for 1, 1 waits for 0"});
}

TEST(LabNetwork, ShortSendsInBothDirectionsPass) {
  Network network(2, unit_network());
  send_and_wait(network, 0, 1, 8);
  send_and_wait(network, 1, 0, 8);
  EXPECT_EQ(network.step().kind, Kind::Ended);
  EXPECT_EQ(network.step().kind, Kind::Ended);
}

TEST(LabNetwork, ARankThatHasReturnedIsNamedInADeadlock) {
  Network network(2, unit_network());
  receive_and_wait(network, 0, 1, 8);
  network.finish(1);
  EXPECT_EQ(network.step().kind, Kind::Stuck);
  test::expect_parts(network.explain_stuck().text, {"rank 1 has returned"});
}

TEST(LabNetwork, AskingForEverIsADeadlockToo) {
  Network network(1, unit_network());
  const Network::Operation receive = network.receive(0, kAnySource, 0, 8, 1).operation;
  Network::Event event;
  int answers = 0;
  do {
    network.poll(0, receive);
    event = network.step();
    EXPECT_FALSE(event.is_complete);
    ASSERT_LT(++answers, 10'000);
  } while (event.kind == Kind::Answer);
  EXPECT_EQ(event.kind, Kind::Stuck);
}

TEST(LabNetwork, LengthsThatDifferAreRefusedWithBoth) {
  Network network(2, unit_network());
  send_and_wait(network, 0, 1, 12);
  receive_and_wait(network, 1, 0, 16);
  Network::Event event = network.step();
  while (event.kind == Kind::Ended) event = network.step();
  ASSERT_EQ(event.kind, Kind::Objection);
  EXPECT_EQ(event.objection.diagnosis, diagnosis::kLengthMismatch);
  test::expect_parts(event.objection.text, {"16", "12"});
}

TEST(LabNetwork, MessagesOfOneRankArriveInTheirOrderHoweverLate) {
  NetworkSettings settings = unit_network();
  settings.jitter = 50;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    settings.seed = seed;
    Network network(2, settings);
    for (unsigned char i = 0; i < 3; ++i) network.send(0, 1, 0, Bytes(1, i), 1);
    network.finish(0);
    for (unsigned char i = 0; i < 3; ++i) {
      const Network::Operation receive = receive_and_wait(network, 1, kAnySource, 1);
      ASSERT_EQ(network.step().kind, Kind::Ended);
      EXPECT_EQ(network.take_message(receive), Bytes(1, i));
    }
  }
}

TEST(LabNetwork, LateMessagesOfDifferentRanksOvertakeEachOther) {
  bool first_is[3] = {};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    NetworkSettings settings = unit_network();
    settings.jitter = 50;
    settings.seed = seed;
    Network network(3, settings);
    network.send(1, 0, 0, Bytes(1), 1);
    network.send(2, 0, 0, Bytes(1), 1);
    network.finish(1);
    network.finish(2);
    const Network::Operation receive = receive_and_wait(network, 0, kAnySource, 1);
    ASSERT_EQ(network.step().kind, Kind::Ended);
    first_is[network.source_of(receive)] = true;
  }
  EXPECT_TRUE(first_is[1]);
  EXPECT_TRUE(first_is[2]);
}

TEST(LabNetwork, WhatNobodyReceivedIsNamed) {
  Network network(2, unit_network());
  network.send(0, 1, 7, Bytes(4), 4);
  network.finish(0);
  network.finish(1);
  EXPECT_EQ(network.step().kind, Kind::AllFinished);
  ASSERT_TRUE(network.left_over());
  test::expect_parts(network.left_over()->text, {"tag 7"});
}

TEST(LabNetwork, RanksThatDoNotExistAreRefused) {
  Network network(2, unit_network());
  EXPECT_EQ(network.send(0, 2, 0, {}, 1).objection->diagnosis, diagnosis::kNoSuchRank);
  EXPECT_EQ(network.receive(0, -2, 0, 0, 1).objection->diagnosis, diagnosis::kNoSuchRank);
}

}  // namespace
}  // namespace tutti::labs
