// TcpLink over one socket: a stream that comes in any portions and ends anywhere, and what is queued.
#include <gtest/gtest.h>
#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/tests/support/expect_text.h>

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "tcp_link_ends.h"

namespace tutti::comm {
namespace {

/// Reads eager frames with payload_of() their length as they come.
class Reader {
 public:
  explicit Reader(TcpLink& link) : link_(link) {}

  std::vector<std::size_t> came;  // lengths of whole ones

  /// Reads what is there.
  void look() {
    while (const FrameHeader* header = link_.peek()) {
      EXPECT_EQ(header->kind, FrameKind::Eager);
      EXPECT_EQ(header->id, header->id == 0 ? 0 : came.size());
      payload_.resize(header->nbytes);
      arrived_ += link_.read(payload_.data() + arrived_, payload_.size() - arrived_);
      if (arrived_ < payload_.size()) return;
      EXPECT_EQ(payload_, payload_of(payload_.size()));
      came.push_back(payload_.size());
      arrived_ = 0;
    }
  }

  void await(std::size_t frames) {
    while (came.size() < frames) look();
  }

 private:
  TcpLink& link_;
  Bytes payload_;
  std::size_t arrived_ = 0;
};

/// The error in which the stream ends.
Error end_of(Reader& reader) {
  try {
    for (;;) reader.look();
  } catch (const Error& error) {
    test::expect_parts(error.what(), {"rank 1"});
    return error;
  }
}

TEST(TcpLinkFrames, ComeByteByByte) {
  LinkEnds ends;
  Bytes stream;
  const std::vector<std::size_t> lengths{4, 0, 300, 60'000, 5};
  for (const std::size_t nbytes : lengths) append(stream, FrameKind::Eager, nbytes);
  Reader reader(ends.link);
  for (const std::byte byte : stream) {
    ends.send({&byte, 1});
    reader.look();
  }
  reader.await(lengths.size());
  EXPECT_EQ(reader.came, lengths);
  EXPECT_EQ(ends.link.peek(), nullptr);
}

/// Streams that end in a header, in a payload, and behind it.
class TcpLinkEnd : public testing::TestWithParam<std::size_t> {};

TEST_P(TcpLinkEnd, IsTheEndOfTheStreamAndNothingElse) {
  LinkEnds ends;
  Bytes stream;
  append(stream, FrameKind::Eager, 4);
  const std::size_t frame = stream.size();
  append(stream, FrameKind::Eager, 100);
  stream.resize(frame + GetParam());
  ends.send(stream);
  ends.end();
  Reader reader(ends.link);
  EXPECT_EQ(end_of(reader).code(), ErrorCode::PeerLost);
  const bool is_whole = GetParam() == kFrameHeaderBytes + 100;
  EXPECT_EQ(reader.came, is_whole ? (std::vector<std::size_t>{4, 100}) : (std::vector<std::size_t>{4}));
}

INSTANTIATE_TEST_SUITE_P(At, TcpLinkEnd,
                         testing::Values(0, 1, kFrameHeaderBytes, kFrameHeaderBytes + 1, kFrameHeaderBytes + 99,
                                         kFrameHeaderBytes + 100));

/// Posts until nothing more leaves.
TEST(TcpLinkQueue, OfShortFramesThatFindNoRoomLeavesLater) {
  LinkEnds ends;
  const Bytes payload = payload_of(4);
  std::deque<Outgoing> frames;
  do {
    frames.push_back({.header = header_of(FrameKind::Eager, 4, frames.size()), .payload = payload.data()});
    ends.link.post(frames.back());
  } while (frames.back().done());
  LinkEnds other;  // reads what has come as a link does
  Reader reader(other.link);
  while (reader.came.size() < frames.size()) {
    other.send(ends.take());
    ends.link.flush();
    reader.look();
  }
  EXPECT_TRUE(frames.back().done());
}

std::uint64_t written(const std::deque<Outgoing>& frames) {
  std::uint64_t bytes = 0;
  for (const Outgoing& frame : frames) bytes += frame.written_;
  return bytes;
}

/// So that this rank reads meanwhile: see tcp_link.cc.
TEST(TcpLinkQueue, OfMuchLeavesInTurns) {
  for (const std::size_t nbytes : {std::size_t{1} << 20, std::size_t{16} << 20}) {
    LinkEnds ends;
    const Bytes payload = payload_of(nbytes);
    const std::size_t count = (std::size_t{16} << 20) / nbytes;
    std::deque<Outgoing> frames;
    Bytes sent, came;
    while (frames.size() < count) {
      frames.push_back({.header = header_of(FrameKind::Eager, nbytes), .payload = payload.data()});
      ends.link.queue(frames.back());
      append(sent, FrameKind::Eager, nbytes);
    }
    while (!frames.back().done()) {
      const std::uint64_t before = written(frames);
      const bool all = ends.link.flush();
      EXPECT_EQ(all, frames.back().done());
      EXPECT_LE(written(frames), before + (1 << 20));
      EXPECT_EQ((ends.link.interest().events & POLLOUT) != 0, !frames.back().done()) << "it wants to go on";
      const Bytes more = ends.take();
      came.insert(came.end(), more.begin(), more.end());
    }
    const Bytes rest = ends.receive(sent.size() - came.size());
    came.insert(came.end(), rest.begin(), rest.end());
    EXPECT_TRUE(came == sent);
  }
}

/// peek() until there is a frame.
const FrameHeader& await_frame(TcpLink& link) {
  for (;;)
    if (const FrameHeader* header = link.peek()) return *header;
}

/// The payload of the current frame, in reads of at most `portion` bytes.
Bytes read_in_portions(TcpLink& link, std::size_t nbytes, std::size_t portion) {
  Bytes bytes(nbytes);
  for (std::size_t got = 0; got < nbytes;) got += link.read(bytes.data() + got, std::min(portion, nbytes - got));
  return bytes;
}

/// Two of them behind the first; within the buffer, and longer.
TEST(TcpLinkPayloads, MayBeReadInAnyPortions) {
  for (const std::size_t nbytes : {std::size_t{100}, std::size_t{8'000}, std::size_t{20'000}, std::size_t{200'000}})
    for (const std::size_t portion : {nbytes, std::size_t{1000}}) {
      LinkEnds ends;
      Bytes stream;
      for (int frame = 0; frame < 3; ++frame) append(stream, FrameKind::Eager, nbytes);
      ends.send(stream);
      for (int frame = 0; frame < 3; ++frame) {
        EXPECT_EQ(await_frame(ends.link).nbytes, nbytes);
        EXPECT_EQ(ends.link.peek()->nbytes, nbytes) << "the same frame until it has been read";
        EXPECT_TRUE(read_in_portions(ends.link, nbytes, portion) == payload_of(nbytes)) << frame;
      }
      EXPECT_EQ(ends.link.peek(), nullptr);
    }
}

}  // namespace
}  // namespace tutti::comm
