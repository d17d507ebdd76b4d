// TcpLink as it reads where its reader expects a payload (peek_into), and as it shows one where it lies (readable).
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tcp_link_ends.h"

namespace tutti::comm {
namespace {

constexpr std::byte kUntouched{0xee};

/// peek_into() until there is a frame.
const FrameHeader& await_frame(TcpLink& link, std::span<std::byte> room) {
  for (;;)
    if (const FrameHeader* header = link.peek_into(room)) return *header;
}

/// The payload of the current frame, in reads of at most `portion` bytes into `room`.
void read_all(TcpLink& link, std::span<std::byte> room, std::size_t portion) {
  for (std::size_t got = 0; got < room.size();)
    got += link.read(room.data() + got, std::min(portion, room.size() - got));
}

/// Its payload where it does not go into the room it was expected in.
Bytes read_elsewhere(TcpLink& link, std::size_t nbytes) {
  Bytes bytes(nbytes);
  read_all(link, bytes, nbytes);
  return bytes;
}

class TcpLinkRoom : public testing::TestWithParam<std::size_t> {};

TEST_P(TcpLinkRoom, HoldsThePayloadsThatAreExpected) {
  const std::size_t nbytes = GetParam();
  for (const std::size_t portion : {nbytes, std::size_t{1000}}) {
    LinkEnds ends;
    Bytes stream;
    for (int frame = 0; frame < 3; ++frame) append(stream, FrameKind::Eager, nbytes);  // two behind the first
    ends.send(stream);
    for (int frame = 0; frame < 3; ++frame) {
      Bytes room(nbytes, kUntouched);
      EXPECT_EQ(await_frame(ends.link, room).nbytes, nbytes);
      EXPECT_EQ(ends.link.peek()->nbytes, nbytes) << "the same frame until it has been read";
      read_all(ends.link, room, portion);
      EXPECT_TRUE(room == payload_of(nbytes)) << frame;
    }
    EXPECT_EQ(ends.link.peek(), nullptr);
  }
}

TEST_P(TcpLinkRoom, IsFilledAsTheStreamComes) {
  const std::size_t nbytes = GetParam();
  LinkEnds ends;
  Bytes stream, room(nbytes, kUntouched);
  append(stream, FrameKind::Eager, nbytes);
  std::size_t got = 0, written = 0;
  while (got < nbytes) {
    const auto next = std::span(stream).subspan(written, std::min<std::size_t>(700, stream.size() - written));
    ends.send(next);
    written += next.size();
    if (ends.link.peek_into(room)) got += ends.link.read(room.data() + got, nbytes - got);
  }
  EXPECT_TRUE(room == payload_of(nbytes));
}

TEST_P(TcpLinkRoom, IsForThatLengthOnly) {
  const std::size_t nbytes = GetParam();
  for (const std::size_t expected : {nbytes - 1, nbytes + 1, 2 * nbytes}) {
    LinkEnds ends;
    Bytes stream, room(expected, kUntouched);
    append(stream, FrameKind::Eager, nbytes);
    append(stream, FrameKind::Eager, 5);
    ends.send(stream);
    EXPECT_EQ(await_frame(ends.link, room).nbytes, nbytes);
    EXPECT_TRUE(read_elsewhere(ends.link, nbytes) == payload_of(nbytes));
    EXPECT_EQ(await_frame(ends.link, {}).nbytes, 5u);
    EXPECT_TRUE(read_elsewhere(ends.link, 5) == payload_of(5));
  }
}

TEST_P(TcpLinkRoom, IsGivenUpByWhoDoesNotWantTheFrame) {
  const std::size_t nbytes = GetParam();
  LinkEnds ends;
  Bytes stream;
  append(stream, FrameKind::Eager, nbytes);
  append(stream, FrameKind::Eager, nbytes);
  ends.send(stream);
  for (int frame = 0; frame < 2; ++frame) {
    {
      Bytes room(nbytes);
      await_frame(ends.link, room);
      ends.link.take_back();
      std::ranges::fill(room, kUntouched);  // it is somebody else's now
    }
    EXPECT_TRUE(read_elsewhere(ends.link, nbytes) == payload_of(nbytes)) << frame;
  }
}

TEST_P(TcpLinkRoom, MaySeeTheEndOfTheStream) {
  const std::size_t nbytes = GetParam();
  for (const std::size_t missing : {std::size_t{1}, nbytes, nbytes + 1}) {
    LinkEnds ends;
    Bytes stream, room(nbytes);
    append(stream, FrameKind::Eager, nbytes);
    ends.send(std::span(stream).first(stream.size() - missing));
    ends.end();
    const auto read = [&] {
      await_frame(ends.link, room);
      for (std::size_t got = 0;;) got += ends.link.read(room.data() + got, nbytes - got);
    };
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::PeerLost) << error.what();
    }
  }
}

/// Below what is worth a place of its own; within one read; as much as is read with the header; longer; and around the
/// length from which zeros lie before the payload.
INSTANTIATE_TEST_SUITE_P(Of, TcpLinkRoom,
                         testing::Values(100, 16 * 1024, 20'000, 32 * 1024, 32 * 1024 + 300, kLongPayloadBytes - 1,
                                         kLongPayloadBytes, 200'000));

TEST(TcpLinkReadable, ShowsWholePayloadsWhereTheyLie) {
  LinkEnds ends;
  Bytes stream;
  for (const std::size_t nbytes : {4000, 100'000, 8}) append(stream, FrameKind::Eager, nbytes);
  ends.send(stream);
  for (const std::size_t nbytes : {std::size_t{4000}, std::size_t{8}}) {
    await_frame(ends.link, {});
    while (ends.link.readable().empty()) ends.link.peek();
    const std::span<const std::byte> there = ends.link.readable();
    EXPECT_TRUE(std::ranges::equal(there, payload_of(nbytes)));
    ends.link.consume(4);
    EXPECT_TRUE(ends.link.readable().empty()) << "only from its beginning";
    const Bytes expected = payload_of(nbytes);
    const Bytes rest = read_elsewhere(ends.link, nbytes - 4);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 4));
    if (nbytes == 8) break;
    EXPECT_EQ(await_frame(ends.link, {}).nbytes, 100'000u);
    EXPECT_TRUE(ends.link.readable().empty()) << "it does not fit into what is read ahead";
    EXPECT_TRUE(read_elsewhere(ends.link, 100'000) == payload_of(100'000));
  }
  EXPECT_EQ(ends.link.peek(), nullptr);
}

}  // namespace
}  // namespace tutti::comm
