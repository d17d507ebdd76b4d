// Short frames of who runs ahead share packets: when that begins and ends, what the kernel holds back, and what it
// acknowledges.
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <tutti/comm/transport/tcp/packet_sharing.h>
#include <tutti/comm/transport/tcp/socket_util.h>

#include <deque>

#include "tcp_link_ends.h"

namespace tutti::comm {
namespace {

/// After rounds in which a rank sends so many frames and then receives once.
bool is_ahead_after(int rounds, int frames) {
  RunsAhead runs_ahead;
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) runs_ahead.note_received();
    for (int frame = 0; frame < frames; ++frame) runs_ahead.note_sent();
  }
  return bool(runs_ahead);
}

TEST(RunsAhead, IsARankThatHasOnlySentForAWhileOrPassesOnMuchMoreThanItReceives) {
  EXPECT_FALSE(is_ahead_after(1, 15));
  EXPECT_TRUE(is_ahead_after(1, 16));
  EXPECT_FALSE(is_ahead_after(100, 15)) << "it awaits answers now and then";
  EXPECT_TRUE(is_ahead_after(100, 20));
}

RunsAhead far_ahead() {
  RunsAhead runs_ahead;
  for (int frames = 0; frames < 100; ++frames) runs_ahead.note_sent();
  return runs_ahead;
}

TEST(PacketSharingHolds, WhatComesBehindEnoughAnnouncements) {
  PacketSharing sharing(1440);
  const RunsAhead runs_ahead = far_ahead();
  for (int frame = 0; frame < PacketSharing::kAnnouncements; ++frame) {
    EXPECT_TRUE(sharing.announces(runs_ahead, 60));
    EXPECT_FALSE(sharing.holds());
  }
  EXPECT_TRUE(sharing.announces(runs_ahead, 360));
  EXPECT_TRUE(sharing.holds());
}

TEST(PacketSharingHolds, NothingFromALongFrameOn) {
  PacketSharing sharing(1440);
  const RunsAhead runs_ahead = far_ahead();
  while (!sharing.holds()) sharing.announces(runs_ahead, 60);
  EXPECT_FALSE(sharing.announces(runs_ahead, 361));
  EXPECT_FALSE(sharing.holds());
  EXPECT_TRUE(sharing.announces(runs_ahead, 60));
  EXPECT_FALSE(sharing.holds()) << "its receiver has not been told for long enough";
}

TEST(PacketSharingHolds, NothingWherePacketsAreUnknown) {
  PacketSharing sharing;
  EXPECT_FALSE(sharing.announces(far_ahead(), kFrameHeaderBytes));
}

TEST(PacketSharingHolds, NothingOfWhoAwaitsAnswers) {
  PacketSharing sharing(1440);
  while (!sharing.holds()) sharing.announces(far_ahead(), 60);
  EXPECT_FALSE(sharing.announces(RunsAhead(), 60));
  EXPECT_FALSE(sharing.holds());
}

int packets_unacknowledged(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  return static_cast<int>(info.tcpi_unacked);
}

/// A link whose peer reads nothing yet, and frames posted to it.
class SharedPackets : public testing::Test {
 protected:
  void post(std::size_t nbytes) {
    frames_.push_back({.header = header_of(FrameKind::Collective, nbytes), .payload = payload_.data()});
    ends_.link.post(frames_.back());
    sent_ += frames_.back().bytes();
  }
  /// Short ones, until the kernel holds some back.
  void post_many() {
    for (int frames = 0; frames < 1'000'000 && held_back() == 0; ++frames) post(4);
    ASSERT_GT(held_back(), 0u);
  }
  std::size_t held_back() {
    int bytes = -1;
    EXPECT_EQ(::ioctl(ends_.link.interest().fd, SIOCOUTQNSD, &bytes), 0);
    return static_cast<std::size_t>(bytes);
  }

  LinkEnds ends_;
  std::size_t sent_ = 0;

 private:
  const Bytes payload_ = payload_of(64 * 1024);
  std::deque<Outgoing> frames_;
};

TEST_F(SharedPackets, HoldEveryFrame) {
  post_many();
  for (int more = 0; more < 100; ++more) post(4);
  const Bytes came = ends_.receive(sent_);
  LinkEnds reader;
  reader.send(came);
  const auto frames = static_cast<int>(came.size() / (kFrameHeaderBytes + 4));
  int announced = 0;
  for (int frame = 0; frame < frames; ++frame) {
    const FrameHeader* header = reader.link.peek();
    while (!header) header = reader.link.peek();
    announced += header->acknowledge;
    ASSERT_EQ(header->nbytes, 4u);
    Bytes payload(4);
    ASSERT_EQ(reader.link.read(payload.data(), 4), 4u);
    ASSERT_EQ(payload, payload_of(4));
  }
  EXPECT_EQ(announced, frames - 15);
}

TEST_F(SharedPackets, LeaveWithTheNextLongFrame) {
  post_many();
  post(65536 / PacketSharing::kInAPacket);
  EXPECT_EQ(held_back(), 0u);
}

TEST_F(SharedPackets, AreNoMoreOnceAnswersCome) {
  for (int rounds = 0; rounds < 5; ++rounds) {
    post_many();
    Bytes answer;
    append(answer, FrameKind::Eager, 0);
    for (int answers = 0; answers < 4; ++answers) {
      ends_.send(answer);
      while (!ends_.link.peek()) continue;
      ends_.link.read(nullptr, 0);
    }
    for (int frames = 0; frames < 10; ++frames) {
      post(4);
      EXPECT_EQ(held_back(), 0u);
    }
    ends_.receive(sent_);
    sent_ = 0;
  }
}

/// The other end has had an answer just before, so that the kernel hopes for another one, and would acknowledge late.
TEST(AcknowledgedWhenReadUp, IsWhatMayBeFollowedByMore) {
  int at_once = 0;
  constexpr int kRounds = 50;
  LinkEnds ends;
  Outgoing answer{.header = header_of(FrameKind::Collective, 0)};
  for (int round = 0; round < kRounds; ++round) {
    for (const bool acknowledge : {false, true}) {
      FrameHeader header = header_of(FrameKind::Collective, 0);
      header.acknowledge = acknowledge;
      ends.send(encode(header));
      while (!ends.link.peek()) continue;
      ends.link.read(nullptr, 0);
      if (!acknowledge) ends.link.post(answer);
    }
    EXPECT_EQ(ends.link.peek(), nullptr);
    at_once += packets_unacknowledged(ends.far_handle()) == 0;
    ends.receive(kFrameHeaderBytes);
  }
  EXPECT_GT(at_once, kRounds * 3 / 4);
}

}  // namespace
}  // namespace tutti::comm
